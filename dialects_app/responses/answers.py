"""Applies the approvals in a request to the approval requests of the previous response."""

from collections.abc import Mapping, Sequence

import msgspec

from chat.errors import ConfirmationAlreadyDecided
from chat.service import SessionSpace
from dialects_app.responses.content import refuse
from dialects_app.responses.continuing import Continued
from dialects_app.responses.items import ApprovalAnswer, ParsedInput
from dialects_app.responses.record import ResumedCall
from sessions_app.calls import open_calls
from sessions_app.errors import MochiError, SessionBusy
from sessions_app.messages import ToolMessage


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions about approval requests of one session.

    Attributes:
        space: Provides the session.
        approvals: The decisions.
        continued: The session, which resumes at the calls.
    """

    space: SessionSpace
    approvals: Sequence[ApprovalAnswer]
    continued: Continued

    def outputs(self, parsed: ParsedInput) -> Sequence[ToolMessage]:
        """Return the outputs of calls that the client ran."""
        waiting = {
            call.id for call in open_calls(self.continued.session.messages) if call.client_side
        }
        return [
            message
            for message in parsed.messages
            if isinstance(message, ToolMessage) and message.tool_call_id in waiting
        ]

    async def give(self) -> Mapping[str, ResumedCall]:
        """Apply the decisions; return the calls to resume.

        Raises:
            SessionBusy: A turn is running in the session.
            ConfirmationError: An approval request can't be decided, or not any more; then none is.
        """
        session = self.continued.session
        session_id = session.session_id
        running = await self.space.turns.active(session_id)
        if running is not None:
            raise SessionBusy(session_id, running.turn_id)
        if not open_calls(session.messages):
            refuse(self.approvals[0].path, "No call of the conversation waits for an approval.")
        pending = await self.space.confirmations.pending(session_id)
        open_ids = {asked.confirmation_id for asked in pending}
        for answer in sorted(self.approvals, key=lambda each: each.confirmation_id in open_ids):
            await self._give(answer)
        questions = {
            asked.tool_call_id: asked.confirmation_id
            for asked in pending
            if asked.agent_name is None
        }
        return resumed_calls(self.continued, questions)

    async def _give(self, answer: ApprovalAnswer) -> None:
        try:
            await self.space.confirmations.decide(
                answer.session_id, answer.confirmation_id, approved=answer.approve
            )
        except ConfirmationAlreadyDecided:
            # By a request whose turn could not start: the call waits still, so it was not used.
            return
        except MochiError as error:
            error.details.setdefault("field", answer.path)
            raise


def resumed_calls(
    continued: Continued, questions: Mapping[str, str] | None = None
) -> dict[str, ResumedCall]:
    """Return the server's calls that a response resumes, by id.

    Args:
        continued: The session.
        questions: The requested confirmations, by call id.
    """
    asked = questions or {}
    return {
        call.id: ResumedCall(
            name=call.name, arguments=call.arguments, confirmation_id=asked.get(call.id)
        )
        for call in open_calls(continued.session.messages[: continued.length])
        if not call.client_side
    }
