"""Says whether a question can still be answered. Pure."""

from chat.approvals.confirmation import Confirmation
from sessions_app.calls import open_calls
from sessions_app.session import Session


def still_asked(session: Session, confirmation: Confirmation) -> bool:
    """Return whether the asking message is still there; it may have been removed by an edit.

    An agent's message is in the agent's session; its question counts while any call is open. That
    of a server counts while its call is open.
    """
    if confirmation.agent_name is not None:
        return bool(open_calls(session.messages))
    if confirmation.kind != "call":
        return any(call.id == confirmation.tool_call_id for call in open_calls(session.messages))
    return any(message.message_id == confirmation.message_id for message in session.messages)
