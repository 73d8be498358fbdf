"""Asks on the terminal whether tools may run."""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from chat.approvals.confirmation import Decision
from chat.approvals.service import ConfirmationService, Remember
from chat.errors import ConfirmationError
from chat.stream.agent_events import AgentToolResult
from chat.stream.events import (
    Event,
    ToolConfirmationRequired,
    ToolResultReceived,
)
from mochi_project.process.trust_question import is_on_terminal
from terminal_app.calls import shown_call, shown_text
from terminal_app.console import Console
from terminal_app.forms import answer_of

Answers = Mapping[str, Remember | None]

CHOICES = "y: run it, n: don't"
ALWAYS = ", a: run it, and this tool always in this conversation"
_ONCE: Answers = {"": None, "n": None, "no": None, "y": "once", "yes": "once"}
_ANSWERS: Answers = {**_ONCE, "a": "session", "all": "session", "always": "session"}


class Approvals:
    """Decides whether tools may run: by asking, or in one way for all of them.

    Args:
        console: Where questions are asked.
        answer: The answer to every question; None asks.
    """

    def __init__(self, console: Console, answer: bool | None = None) -> None:
        self._console = console
        self._answer = answer

    @property
    def can_answer(self) -> bool:
        """Return whether a question would get an answer."""
        return self._answer is not None or is_on_terminal()

    async def decide(self, question: ToolConfirmationRequired) -> Remember | None:
        """Return which calls may run: this one, or the session's of this tool; None for none."""
        call = shown_call(question)
        if self._answer is not None:
            self._console.info(f"[{call}: {'approved' if self._answer else 'denied'}]")
            return "once" if self._answer else None
        if question.reason is UNSET:
            return await self._ask(f"Run {call}? [y/N/a] ", _ANSWERS, CHOICES + ALWAYS)
        if question.reason == "may_have_run":
            self._console.info(
                "[it was running when the server stopped, and may have done its work]"
            )
            return await self._ask(f"Run {call} again? [y/N] ", _ONCE, CHOICES)
        self._console.info(f"[{shown_text(question.tool_name)} has changed since it was enabled]")
        # Only its present form is approved, which can't be remembered.
        return await self._ask(f"Run {call}? [y/N] ", _ONCE, CHOICES)

    async def answer(self, question: ToolConfirmationRequired) -> Any:
        """Return what a server asks for, or True for an address; None declines."""
        if self._answer is not None:
            self._console.info(f"[the server {shown_text(str(question.server))} asks: declined]")
            return None
        return await answer_of(question, self._console)

    async def _ask(self, question: str, answers: Answers, choices: str) -> Remember | None:
        while True:
            line = await self._console.ask(question)
            word = "" if line is None else line.strip().lower()
            if word in answers:
                return answers[word]
            self._console.info(choices)


class Questions:
    """Asks about the calls of one turn, one after the other, while its events go on.

    A question that another client answers, or that the end of the turn closes, goes away. One that
    was open already when its tool was approved for the session is not asked.

    Args:
        approvals: Who decides.
        confirmations: Where answers are given.
        session_id: The session of the turn.
        console: Where it is said why an answer came too late.
    """

    def __init__(
        self,
        approvals: Approvals,
        confirmations: ConfirmationService,
        session_id: str,
        console: Console,
    ) -> None:
        self._approvals = approvals
        self._confirmations = confirmations
        self._session_id = session_id
        self._console = console
        self._waiting: deque[ToolConfirmationRequired] = deque()
        self._open: tuple[str, asyncio.Task[None]] | None = None
        self._always: set[tuple[str, str]] = set()
        self.unanswered: list[ToolConfirmationRequired] = []

    def notice(self, event: Event | None) -> None:
        """Ask what an event asks; close the question about a call that has a result."""
        if isinstance(event, ToolConfirmationRequired):
            if self._approvals.can_answer:
                self._waiting.append(event)
                self._ask_next()
            else:
                self.unanswered.append(event)
        elif isinstance(event, (ToolResultReceived, AgentToolResult)):
            self._close(_id_of(event))

    async def aclose(self) -> None:
        """Ask no more."""
        self._waiting.clear()
        if self._open is not None:
            task = self._open[1]
            task.cancel()
            await asyncio.wait([task])

    def _ask_next(self) -> None:
        if self._open is None and self._waiting:
            question = self._waiting.popleft()
            task = asyncio.create_task(self._ask(question))
            self._open = _id_of(question), task
            task.add_done_callback(self._on_answer)

    def _on_answer(self, task: asyncio.Task[None]) -> None:
        self._open = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self._console.error(str(error))
        self._ask_next()

    async def _ask(self, question: ToolConfirmationRequired) -> None:
        if question.kind is not UNSET:
            answer = await self._approvals.answer(question)
            content = answer if isinstance(answer, dict) else None
            await self._decide(question, answer is not None, content=content)
            return
        tool = _tool_of(question)
        is_decided = tool in self._always and question.reason is UNSET
        remember = "once" if is_decided else await self._approvals.decide(question)
        if remember == "session":
            self._always.add(tool)
        await self._decide(question, remember is not None, remember=remember or "once")

    async def _decide(
        self,
        question: ToolConfirmationRequired,
        approved: bool,
        *,
        content: Mapping[str, Any] | None = None,
        remember: Remember = "once",
    ) -> None:
        name = question.confirmation_id
        decision = Decision(confirmation_id=name, approved=approved, content=content)
        try:
            await self._confirmations.decide(self._session_id, decision, remember=remember)
        except ConfirmationError as error:  # answered elsewhere, or too late
            self._console.info(f"[{error.message}]")

    def _close(self, call_id: str) -> None:
        for question in list(self._waiting):
            if _id_of(question) == call_id:
                self._waiting.remove(question)
        if self._open is not None and self._open[0] == call_id:
            self._open[1].cancel()


def _id_of(event: ToolConfirmationRequired | ToolResultReceived | AgentToolResult) -> str:
    inner = getattr(event, "inner_tool_call_id", UNSET)
    return inner if isinstance(inner, str) else event.tool_call_id


def _tool_of(question: ToolConfirmationRequired) -> tuple[str, str]:
    agent = "" if question.agent_name is UNSET else question.agent_name
    return agent, question.tool_name
