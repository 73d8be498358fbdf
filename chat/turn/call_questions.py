"""Asks the person of a turn what the server of one of its calls wants to know (docs/mcp.md).

Up to MCP's 2025-11-25 a server asks while the call runs, which is lost with its process. From
2026-07-28 on the call ends with its questions, and is repeated with the answers: they survive the
process, and a turn without a listener is suspended (docs/decisions/0193).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import msgspec

from chat.approvals.approver import Approver, Emit, NobodyToApprove, events_of
from chat.approvals.confirmation import Confirmation, Retry
from chat.approvals.decided_calls import DecidedCall
from chat.approvals.questions import Lasting
from chat.work_threads import run_to_end
from tools_app.elicitation import MAX_ROUNDS, InputAnswer, InputGiven, InputNeeded, InputRequest
from tools_app.errors import EXECUTION_FAILED
from tools_app.toolset import ToolInvocation, ToolResult, Toolset

_STATE_ONLY_SECONDS = 0.1
"""The pause before a call is repeated that asked nothing, so that it can't be repeated at once."""
_DECLINED = "[Its server asked the user for input, which can't be given here. It was declined.]"

Step = Callable[[], Awaitable[None]]


class CallQuestions:
    """Runs one call, and asks the person of its turn what its server wants to know.

    Args:
        item: The call.
        message_id: The assistant message with the call.
        approver: Asks the person.
        emit: Sends events.
        pause: Called when the call has ended and waits for answers.
        begin: Called before the call is repeated.

    Attributes:
        item: As above.
        message_id: As above.
    """

    def __init__(
        self,
        item: DecidedCall,
        *,
        message_id: str,
        approver: Approver,
        emit: Emit,
        pause: Step,
        begin: Step,
    ) -> None:
        self.item = item
        self.message_id = message_id
        self._approver = approver
        self._servers = approver.servers
        self._emit = emit
        self._pause = pause
        self._begin = begin
        self._round = 0
        self._is_declined = False

    async def call(self, toolset: Toolset, invocation: ToolInvocation) -> ToolResult:
        """Call the tool, again and again with the answers to the questions that it ends with.

        Raises:
            NobodyToApprove: A question needs an answer, and the turn has no listener, or nobody has
                answered while a turn may wait.
        """
        invocation = msgspec.structs.replace(invocation, ask=self._ask)
        given: InputGiven | None = None
        if (asked := self.item.questions) and (retry := asked[0].retry) is not None:
            self._round = retry.round
            given = await self._given(asked, {}, retry.request_state, retry.plainly)
            if given is None:
                return _refused("The user did not open the address.")
        while True:
            invocation = msgspec.structs.replace(invocation, given=given)
            result = await toolset.call_tool(invocation)
            if result.needs is None:
                return self._noted(result)
            self._round += 1
            if self._round > MAX_ROUNDS:
                return _refused(f"Its server asked for input {MAX_ROUNDS} times.")
            given = await self._answered(result.needs)
            if given is None:
                return self._noted(result)

    async def _ask(self, request: InputRequest) -> InputAnswer:
        """Ask while the call runs; a turn without a listener goes on waiting."""
        (question,) = await self._questions({"": request}, None)
        if question is None:
            return InputAnswer(action="decline")
        try:
            self._emit(events_of([question]))
            with self._servers.waiting(question):
                await self._approver.answers([question])
        except asyncio.CancelledError:
            await run_to_end(partial(self._servers.take_back, question))
            raise
        return await run_to_end(partial(self._servers.take, question))

    async def _answered(self, needed: InputNeeded) -> InputGiven | None:
        """Ask what an ended call needs; None if it is not repeated."""
        retry = Retry(
            key="",
            request_state=needed.request_state,
            round=self._round,
            plainly=needed.repeats_plainly,
            arguments=self.item.arguments,
            was_edited=self.item.was_edited,
            approval_id=self.item.confirmation_id if self.item.approved else None,
        )
        asked = await self._questions(needed.requests, retry)
        names = zip(needed.requests, asked, strict=True)
        declined = {key: InputAnswer(action="decline") for key, each in names if each is None}
        if not needed.requests:
            await asyncio.sleep(_STATE_ONLY_SECONDS)
        questions = [each for each in asked if each is not None]
        return await self._given(questions, declined, retry.request_state, retry.plainly)

    async def _given(
        self,
        questions: Sequence[Confirmation],
        declined: Mapping[str, InputAnswer],
        request_state: str | None,
        plainly: bool,
    ) -> InputGiven | None:
        """Wait for the answers; None if an address was not opened without which a call fails."""
        waiting = await run_to_end(partial(self._servers.unanswered, questions))
        if waiting:
            self._emit(events_of(waiting))
            await self._pause()
            if self._servers.mode == "suspend":
                raise NobodyToApprove(waiting)
            await self._approver.answers_in_time(waiting)
            await self._begin()
        answers = dict(declined)
        for each in questions:
            answer = await run_to_end(partial(self._servers.take, each))
            answers[each.retry.key if each.retry else ""] = answer
        if not plainly:
            return InputGiven(answers=answers, request_state=request_state)
        is_open = all(each.action == "accept" for each in answers.values())
        return InputGiven(answers={}) if is_open else None

    async def _questions(
        self, requests: Mapping[str, InputRequest], retry: Retry | None
    ) -> Sequence[Confirmation | None]:
        asked: list[Confirmation | None] = []
        for key, request in requests.items():
            named = None if retry is None else msgspec.structs.replace(retry, key=key)
            ask = partial(
                self._servers.ask,
                self.item,
                request,
                message_id=self.message_id,
                retry=named,
                lasting=Lasting() if retry is None else self._approver.lasting,
            )
            asked.append(await run_to_end(ask))
        self._is_declined = self._is_declined or None in asked
        return asked

    def _noted(self, result: ToolResult) -> ToolResult:
        """Return the result with a note for the model, if a question was declined for the user."""
        if not self._is_declined or result.result is None:
            return result
        return msgspec.structs.replace(result, result=f"{result.result}\n\n{_DECLINED}")


def _refused(message: str) -> ToolResult:
    return ToolResult(success=False, error_message=message, error_code=EXECUTION_FAILED)
