"""Sessions of which models are not sent everything any more."""

from collections.abc import Sequence

from sessions_app.context_state import ContextState, digest_of
from sessions_app.messages import Message
from sessions_app.session import Session, with_metadata

NOW = "2026-11-21T10:00:00.000000+00:00"


def leaving_out(
    session: Session, gone: Sequence[Message], *, summary: str | None = None
) -> Session:
    """Return the session with a state that leaves out a span of its shown messages."""
    state = ContextState(
        strategy="truncate_by_tokens",
        first_id=gone[0].message_id,
        last_id=gone[-1].message_id,
        count=len(gone),
        digest=digest_of(gone),
        created_at=NOW,
        summary=summary,
    )
    return with_metadata(session, now=NOW, context_state=state)
