"""Keeps the questions of servers to the person of a turn, and uses up the answers (MCP).

All methods that ask, take or look block.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Literal

import msgspec

from chat.approvals.confirmation import Confirmation, Retry
from chat.approvals.decided_calls import DecidedCall, NumberedCall, repeated
from chat.approvals.questions import Lasting
from chat.approvals.store import ConfirmationStore
from tools_app.available_tools import AvailableTools
from tools_app.elicitation import MAX_QUESTIONS, InputAnswer, InputRequest
from tools_app.toolset import Tool

ApprovalMode = Literal["wait", "suspend", "deny"]
"""The ways to deal with calls that need an approval: wait for it, end the turn, deny them."""

Elicits = Literal["always", "between_calls", "never"]
"""The times at which servers may ask: also during a call, once it has ended, or at none."""


class ServerQuestions:
    """The questions of servers in one turn.

    Args:
        confirmation_store: The store of questions and answers.
        session_id: The session.
        turn_id: The turn that waits for the answers.
        available_tools: The tools that the model may call.
        mode: The way to deal with questions.
        elicits: When servers may ask.

    Attributes:
        has_asked: Whether any was asked.
        unheard: Set while a running call waits for an answer, in a turn without a listener.
    """

    def __init__(
        self,
        confirmation_store: ConfirmationStore,
        *,
        session_id: str,
        turn_id: str,
        available_tools: AvailableTools,
        mode: ApprovalMode,
        elicits: Elicits = "always",
    ) -> None:
        self._elicits = elicits
        self.has_asked = False
        self.unheard = asyncio.Event()
        self.mode = mode
        self._store = confirmation_store
        self._session_id = session_id
        self._turn_id = turn_id
        self._available = available_tools
        self._counts = Counter[str]()
        self._waiting = set[str]()

    def for_agent(self, agent_name: str, tools: Mapping[str, Tool]) -> "ServerQuestions":
        """Return the questions of an agent's servers, which are counted together with these."""
        agents = copy(self)
        agents._available = AvailableTools(  # noqa: SLF001 - its own
            tools=tools, settings=self._available.settings, agent_name=agent_name
        )
        return agents

    def ask(
        self,
        item: NumberedCall,
        request: InputRequest,
        *,
        message_id: str,
        retry: Retry | None,
        lasting: Lasting,
    ) -> Confirmation | None:
        """Ask a server's question; return None if it must not ask.

        Args:
            item: The call that asks.
            request: The question.
            message_id: The assistant message with the call.
            retry: What the call is repeated with; None if it is still running.
            lasting: How long the question of an ended call is open.
        """
        self._counts[request.server] += 1
        is_shown = self._elicits == "always" or (self._elicits == "between_calls" and retry)
        is_many = self._counts[request.server] > MAX_QUESTIONS
        if self.mode == "deny" or not is_shown or is_many:
            return None
        self.has_asked = True
        return self._store.ask(
            session_id=self._session_id,
            message_id=message_id,
            call=msgspec.structs.replace(item.call, arguments={}),
            call_index=item.index,
            turn_id=self._turn_id,
            agent_name=self._available.agent_name,
            tool_digest=self._digest(item.call.name),
            kind="input" if request.url is None else "url",
            server=request.server,
            message=request.message,
            schema=request.schema,
            url=request.url,
            retry=retry,
            **lasting,
        )

    def unanswered(self, questions: Sequence[Confirmation]) -> Sequence[Confirmation]:
        """Return those without an answer, which this turn asks from now on."""
        self.has_asked = True
        open_ones = [each for each in questions if self._store.decision_of(each) is None]
        return [
            each if each.turn_id == self._turn_id else self._store.renew(each, self._turn_id)
            for each in open_ones
        ]

    def pending(self) -> Sequence[Confirmation]:
        """Return the questions of the turn that wait for an answer."""
        pending = self._store.pending(self._session_id)
        return [each for each in pending if each.turn_id == self._turn_id]

    def take(self, question: Confirmation) -> InputAnswer:
        """Use up the answer to a question."""
        decision = self._store.take(question)
        return InputAnswer(action="cancel") if decision is None else decision.for_server

    def take_back(self, question: Confirmation) -> None:
        """Withdraw a question."""
        self._store.withdraw([question])

    def ended_calls(
        self, calls: Sequence[NumberedCall], message_id: str
    ) -> Mapping[str, DecidedCall]:
        """Return the calls that have ended with questions, by their ids.

        If its tool has changed since, a call is decided on anew.
        """
        left: dict[str, list[Confirmation]] = {}
        for question in self._store.left_open(self._session_id, message_id):
            if question.tool_digest == self._digest(question.tool_name):
                left.setdefault(question.tool_call_id, []).append(question)
            else:
                self._store.withdraw([question])
        return {it.call.id: repeated(it, left[it.call.id]) for it in calls if it.call.id in left}

    @contextmanager
    def waiting(self, question: Confirmation) -> Iterator[None]:
        """Tell the client of a turn without a listener that it waits, during the body."""
        if self.mode == "suspend":
            self._waiting.add(question.confirmation_id)
            self.unheard.set()
        try:
            yield
        finally:
            self._waiting.discard(question.confirmation_id)
            if not self._waiting:
                self.unheard.clear()

    def _digest(self, tool_name: str) -> str | None:
        tool = self._available.find(tool_name)
        return None if tool is None else tool.digest
