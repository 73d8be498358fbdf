"""Moves messages between a session's inbox and its messages (docs/decisions/0176, 0178). Pure."""

from sessions_app.calls import open_calls
from sessions_app.inbox import InboxMessage
from sessions_app.session import Session, with_inbox, with_messages

MOST_ATTEMPTS = 3
"""The turns that may take a message and die before they say anything; then it is left to people."""


def next_message(session: Session) -> InboxMessage | None:
    """Return the message that the next turn answers; None if none waits, or none may be taken.

    While calls are open, messages wait for the turn that brings the results. One that interrupts
    does not.
    """
    message = session.inbox.next
    if message is None or message.when_busy == "interrupt":
        return message
    return None if open_calls(session.messages) else message


def is_said(session: Session, message_id: str) -> bool:
    """Return whether the message is one of the session's messages."""
    return any(each.message_id == message_id for each in reversed(session.messages))


def settled(session: Session, *, pause: str | None = None) -> Session:
    """Return the session with its inbox as the write of a turn leaves it.

    A message that the turn took and that is not said after all is returned.

    Args:
        session: The session.
        pause: Why the messages that still wait are not answered, if they are not. One that
            interrupts is what the turn was cancelled for.
    """
    inbox = session.inbox
    if inbox.is_empty:
        return session
    if inbox.taken is not None:
        inbox = inbox.settle(returned=not is_said(session, inbox.taken.message_id))
    interrupts = bool(inbox.messages) and inbox.messages[0].when_busy == "interrupt"
    if pause is not None and not (pause == "cancelled" and interrupts):
        inbox = inbox.pause(pause)
    return session if inbox is session.inbox else with_inbox(session, inbox)


def recovered(session: Session, *, has_begun: bool) -> Session:
    """Return the session with its inbox as a turn leaves it whose process died.

    A message that was acknowledged is answered: it is returned if nobody has seen anything of the
    turn that took it, though not for ever.

    Args:
        session: The session, with what clients saw of the turn.
        has_begun: Whether they saw anything.
    """
    taken = session.inbox.taken
    if taken is None:
        return session
    if has_begun or session.last_message_id != taken.message_id:
        return settled(session)
    if taken.attempts >= MOST_ATTEMPTS:
        return settled(session, pause="failed")
    updated_at = session.metadata.updated_at
    return settled(with_messages(session, session.messages[:-1], now=updated_at))
