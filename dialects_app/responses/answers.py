"""Reads the approvals in a request, for the approval requests of the previous response."""

from collections.abc import Sequence

import msgspec

from chat.approvals.confirmation import Decision
from chat.service import SessionSpace
from dialects_app.responses.continuing import Continued
from dialects_app.responses.item_calls import ApprovalAnswer
from dialects_app.responses.items import ParsedInput
from dialects_app.shared.fields import refuse
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

    @property
    def decisions(self) -> Sequence[Decision]:
        """The decisions, for the turn that resumes the calls."""
        return [
            Decision(confirmation_id=each.confirmation_id, approved=each.approve)
            for each in self.approvals
        ]

    async def require_open_calls(self) -> None:
        """Check that there are calls to resume.

        Raises:
            SessionBusy: A turn is running in the session.
            ValidationFailed: No call waits for an approval.
        """
        session = self.continued.session
        session_id = session.session_id
        running = await self.space.turns.active(session_id)
        if running is not None:
            raise SessionBusy(session_id, running.turn_id)
        if not open_calls(session.messages):
            refuse(self.approvals[0].path, "No call of the conversation waits for an approval.")

    def name_field(self, error: MochiError) -> None:
        """Name the approval that an error is about."""
        about = error.details.get("confirmation_id")
        for each in self.approvals:
            if each.confirmation_id == about:
                error.details.setdefault("field", each.path)
