"""Asks a person before a tool runs, where the policy wants it, and waits for the answers."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET

from chat.approvals.answers import Answers
from chat.approvals.confirmation import ApprovalDecision, Confirmation
from chat.approvals.decided_calls import DecidedCall, NumberedCall, decided, free, lost, refused
from chat.approvals.questions import Lasting
from chat.approvals.server_questions import ApprovalMode, Elicits, ServerQuestions
from chat.approvals.store import ConfirmationStore
from chat.stream.events import AskedBecause, Event, StatusChanged, ToolConfirmationRequired
from chat.work_threads import run_to_end
from sessions_app.messages import NO_EXTRA, ToolCall
from sessions_app.session import ToolSettings
from tools_app.available_tools import AvailableTools
from tools_app.digests import with_approved
from tools_app.toolset import Tool

WAITING_SECONDS = 300.0
"""The time for which a turn waits for answers with its place; questions may be open for longer."""

Emit = Callable[[Sequence[Event]], object]
Change = Callable[[ToolSettings], ToolSettings]
KeepSettings = Callable[[Change], Awaitable[None]]


class NobodyToApprove(Exception):
    """Raised when calls wait for an approval and the turn has no listener to ask."""

    def __init__(self, confirmations: Sequence[Confirmation]) -> None:
        super().__init__(len(confirmations))
        self.confirmations = confirmations


class Approver:
    """Decides on the calls of one turn, by the session's policy or by asking a person.

    The calls of a round are decided together, before any of them runs (docs/decisions/0013).

    Args:
        confirmation_store: The store of questions and answers.
        session_id: The session.
        turn_id: The turn that waits for the answers.
        available_tools: The tools that the model may call, and the approval policies.
        mode: The way to deal with calls that need an approval.
        keep_settings: Changes the session's settings: digests of tools that were approved after a
            change, and policies that were set with approvals.
        request: What the next turn goes on with if a question outlasts this one.
        asked_at: When the open calls were made in this session; empty if maybe in another one.
        elicits: When servers may ask the person, too.

    Attributes:
        servers: Asks the person what servers want to know.
        is_waiting: Whether a person is asked just now; agents' approvers say so for themselves.
    """

    def __init__(
        self,
        confirmation_store: ConfirmationStore,
        *,
        session_id: str,
        turn_id: str,
        available_tools: AvailableTools,
        mode: ApprovalMode,
        keep_settings: KeepSettings | None = None,
        asked_at: str = "",
        request: Mapping[str, Any] = NO_EXTRA,
        elicits: Elicits = "always",
    ) -> None:
        self.servers = ServerQuestions(
            confirmation_store,
            session_id=session_id,
            turn_id=turn_id,
            available_tools=available_tools,
            mode=mode,
            elicits=elicits,
        )
        self._confirmation_store = confirmation_store
        self._session_id = session_id
        self._turn_id = turn_id
        self._available = available_tools
        self._mode = mode
        self._keep_settings = keep_settings
        self._asked_at = asked_at
        self._request = request
        self._agents: list[Approver] = []
        self._asked = False
        self.is_waiting = False
        self._answers = Answers(confirmation_store, turn_id)

    @property
    def settings(self) -> ToolSettings:
        """The session's policies."""
        return self._available.settings

    @property
    def _timeout_seconds(self) -> float:
        """The time for which questions about calls are open."""
        return self.settings.approval_timeout_seconds or self._confirmation_store.timeout_seconds

    @property
    def _outlasts(self) -> bool:
        """Return whether questions about calls are open for longer than a turn waits."""
        return self._timeout_seconds > WAITING_SECONDS

    @property
    def lasting(self) -> Lasting:
        """Return how long questions about calls are open that are not running.

        The answer starts the next turn if they outlast this one. Clients without a stream start it
        themselves, unless their session is one of long questions.
        """
        of_session = self.settings.approval_timeout_seconds
        goes_on = self._outlasts and (of_session is not None or self._mode != "suspend")
        return Lasting(timeout_seconds=of_session, request=self._request if goes_on else None)

    @property
    def has_asked(self) -> bool:
        """Return whether this turn, or an agent of it, may have asked anything."""
        return (
            self._asked or self.servers.has_asked or any(agent.has_asked for agent in self._agents)
        )

    def follow(self, settings: ToolSettings | None) -> None:
        """Apply these policies from now on, also to running agents."""
        self._available = msgspec.structs.replace(
            self._available, settings=settings or ToolSettings()
        )
        for agent in self._agents:
            agent.follow(settings)

    def notice(self) -> None:
        """Look for answers now, since something was decided."""
        self._answers.notice()
        for agent in self._agents:
            agent.notice()

    def must_ask(self, calls: Sequence[ToolCall]) -> bool:
        """Return whether the current policies require an approval of one of the calls."""
        return any(self._available.must_ask(call) for call in calls)

    def for_agent(self, agent_name: str, tools: Mapping[str, Tool]) -> "Approver":
        """Return the approver of an agent that this turn's model calls.

        It has the same policies, and asks the same person.
        """
        agent = Approver(
            self._confirmation_store,
            session_id=self._session_id,
            turn_id=self._turn_id,
            available_tools=AvailableTools(
                tools=tools, settings=self._available.settings, agent_name=agent_name
            ),
            mode=self._mode,
            keep_settings=self._change_settings,
            request=self._request,
            asked_at="",  # perhaps by a copy of another session's agent
        )
        agent.servers = self.servers.for_agent(agent_name, tools)
        self._agents.append(agent)
        return agent

    async def decide(
        self,
        calls: Sequence[NumberedCall],
        *,
        message_id: str,
        emit: Emit,
        resumed: bool = False,
        unclear: Collection[str] = (),
    ) -> list[DecidedCall]:
        """Return the calls in their order, once all are decided.

        A person is asked about all of them at once; in the mode ``deny`` nobody is asked. Calls
        that an earlier turn asked about need an approval even if the policies have changed.

        Args:
            calls: The calls of one assistant message.
            message_id: That message.
            emit: Called with the events that request approvals.
            resumed: Whether an earlier turn left the calls open.
            unclear: The ids of calls that may have run: a person decides whether they run again.

        Raises:
            NobodyToApprove: An approval is needed, and the mode is ``suspend``, or nobody has
                answered while a turn may wait.
        """
        if resumed:
            ended = await asyncio.to_thread(self.servers.ended_calls, calls, message_id)
            calls = [item for item in calls if item.call.id not in ended]
        else:
            ended = {}
        results = await self._decide(calls, message_id, emit, resumed, unclear)
        return sorted([*results, *ended.values()], key=lambda item: item.index)

    async def _decide(
        self,
        calls: Sequence[NumberedCall],
        message_id: str,
        emit: Emit,
        resumed: bool,
        unclear: Collection[str],
    ) -> list[DecidedCall]:
        asked = [item for item in calls if self._available.must_ask(item.call)]
        if resumed and len(asked) < len(calls):
            asked = await asyncio.to_thread(self._asked_before, calls, message_id, unclear)
        if not asked:
            return [free(item) for item in calls]
        self._asked = True
        decisions, questions = await run_to_end(partial(self._ask_all, asked, message_id, unclear))
        if questions:
            emit(events_of(questions))
            if self._mode == "suspend":
                raise NobodyToApprove(questions)
            self.is_waiting = True
            try:
                answers = await self.answers_in_time(questions)
            finally:
                self.is_waiting = False
            decisions |= {each.call_index: answers[each.confirmation_id] for each in questions}
        await self._accept_changes(asked, decisions)
        used = await asyncio.to_thread(self._use, decisions)
        # Of approvals that were not taken back meanwhile.
        await self._remember([it for it in used.values() if it is not None and it.approved])
        needing = {item.index for item in asked}
        results = [
            decided(item, used[item.index])
            if item.index in used
            else refused(item)
            if item.index in needing
            else free(item)
            for item in calls
        ]
        return [lost(it) if it.refusal and it.call.id in unclear else it for it in results]

    async def _remember(self, approvals: Sequence[ApprovalDecision]) -> None:
        """Set the policies of approvals; those for all calls first, which replace any others."""
        policies = [it.remembered for it in approvals if it.remembered is not None]
        for policy in sorted(policies, key=lambda it: it.arguments is not None):
            await self._change_settings(policy.applied_to)

    async def _accept_changes(
        self, calls: Sequence[NumberedCall], decisions: Mapping[int, ApprovalDecision]
    ) -> None:
        """Accept the current versions of changed tools whose calls were approved."""
        approved = {index for index, decision in decisions.items() if decision.approved}
        names = {item.call.name for item in calls if item.index in approved}
        found = [self._available.find(name) for name in sorted(names & self._available.changed)]
        tools = [tool for tool in found if tool is not None]
        if tools:
            await self._change_settings(partial(with_approved, tools=tools))
            changed = self._available.changed - {tool.name for tool in tools}
            self._available = msgspec.structs.replace(self._available, changed=changed)

    async def _change_settings(self, change: Change) -> None:
        """Change the session's settings; the change applies from now on, also to running agents."""
        if self._keep_settings is not None:
            await self._keep_settings(change)
        self.follow(change(self.settings))

    async def withdraw(self) -> None:
        """Withdraw the open questions of the turn, which was stopped."""
        if self.has_asked:  # else there are none, which is not worth a look into the store
            await asyncio.to_thread(self._withdraw)

    def _withdraw(self) -> None:
        pending = self._confirmation_store.pending(self._session_id)
        self._confirmation_store.withdraw(each for each in pending if each.turn_id == self._turn_id)

    def _asked_before(
        self, calls: Sequence[NumberedCall], message_id: str, unclear: Collection[str]
    ) -> list[NumberedCall]:
        """Return the calls that need an approval, now or when they were made, or are unclear.

        All do that nobody was asked about here if the question may be in the original of a copy,
        or swept since.
        """
        known = self._confirmation_store.calls_asked(self._session_id, message_id)
        if not self._confirmation_store.is_recent(self._asked_at):
            known = known or None
        available = self._available
        return [
            item
            for item in calls
            if available.must_ask(item.call)
            or item.call.id in unclear
            or (
                (known is None or item.call.id in known)
                and available.allows(item.call.name)
                and not available.delegates(item.call.name)
            )
        ]

    def _ask_all(
        self, calls: Sequence[NumberedCall], message_id: str, unclear: Collection[str]
    ) -> tuple[dict[int, ApprovalDecision], list[Confirmation]]:
        """Return existing answers, if the turn resumes, and new questions for the other calls."""
        decisions: dict[int, ApprovalDecision] = {}
        questions: list[Confirmation] = []
        for item in calls:
            tool = self._available.find(item.call.name)
            digest = None if tool is None else tool.digest
            given = self._confirmation_store.find_decided(
                self._session_id, message_id, item.call, digest
            )
            if given is not None:
                decisions[item.index] = given
            if given is not None or self._mode == "deny":
                continue
            questions.append(
                self._confirmation_store.ask(
                    session_id=self._session_id,
                    message_id=message_id,
                    call=item.call,
                    call_index=item.index,
                    turn_id=self._turn_id,
                    agent_name=self._available.agent_name,
                    reason=self._reason(item.call, unclear),
                    tool_digest=digest,
                    parameters=None if tool is None else tool.spec.parameters,
                    call_ids=tuple(each.call.id for each in calls),
                    **self.lasting,
                )
            )
        return decisions, questions

    def _reason(self, call: ToolCall, unclear: Collection[str]) -> AskedBecause | None:
        if call.id in unclear:
            return "may_have_run"
        return "tool_changed" if call.name in self._available.changed else None

    async def answers(self, questions: Sequence[Confirmation]) -> Mapping[str, ApprovalDecision]:
        """Wait until every question is answered; after the timeout the answer is no.

        Returns the answers by the questions' ids.
        """
        return await self._answers.wait(questions, self._confirmation_store.timeout_seconds)

    async def answers_in_time(
        self, questions: Sequence[Confirmation]
    ) -> Mapping[str, ApprovalDecision]:
        """Return the answers to questions about calls that are not running.

        Raises:
            NobodyToApprove: Some are open for longer than a turn waits.
        """
        seconds, outlasts = self._timeout_seconds, self._outlasts
        answers = await self._answers.wait(
            questions, WAITING_SECONDS if outlasts else seconds, expire=not outlasts
        )
        if left := [each for each in questions if each.confirmation_id not in answers]:
            raise NobodyToApprove(left)
        return answers

    def _use(self, decisions: Mapping[int, ApprovalDecision]) -> dict[int, ApprovalDecision | None]:
        """Use up the approvals; None replaces those used before, a denial those denied since."""
        used: dict[int, ApprovalDecision | None] = {**decisions}
        for index, decision in decisions.items():
            name = decision.confirmation_id
            if decision.approved and not self._confirmation_store.consume(self._session_id, name):
                standing = self._confirmation_store.decision(self._session_id, name)
                used[index] = None if standing is None or standing.approved else standing
        return used


def events_of(questions: Sequence[Confirmation]) -> list[Event]:
    """Return the events that ask a person."""
    return [*map(_question, questions), StatusChanged(state="waiting_for_confirmation")]


def _question(confirmation: Confirmation) -> ToolConfirmationRequired:
    parts = ("agent_name", "reason", "server", "message", "schema", "url")
    asked = {name: value for name in parts if (value := getattr(confirmation, name)) is not None}
    return ToolConfirmationRequired(
        tool_name=confirmation.tool_name,
        arguments=confirmation.arguments,
        call_index=confirmation.call_index,
        tool_call_id=confirmation.tool_call_id,
        confirmation_id=confirmation.confirmation_id,
        expires_at=confirmation.expires_at,
        kind=UNSET if confirmation.kind == "call" else confirmation.kind,
        secret_names=confirmation.secret_names or UNSET,
        call_ended=UNSET if confirmation.retry is None else True,
        **asked,
    )
