"""Prepares turns for queued messages, which are taken out of the inbox in the write that claims."""

import asyncio
from functools import partial

import msgspec

from chat.start.answered_questions import AnsweredQuestions
from chat.start.preparation import (
    ChatPreparation,
    Prepare,
    SettingsChanged,
    TurnPreparer,
    user_message,
)
from chat.start.resuming import ResumedPreparation
from chat.start.turn_request import TurnRequest, admitted, request_of
from chat.turn.job import TurnJob
from sessions_app.errors import ValidationFailed
from sessions_app.inbox import InboxMessage
from sessions_app.messages import UserMessage
from sessions_app.queueing import next_message, recovered
from sessions_app.session import Session, with_inbox


class NothingQueued(Exception):
    """Raised if no message waits, or none may be taken now."""


def queued_message(
    request: TurnRequest,
    *,
    message_id: str | None,
    when_busy: str,
    queued_at: str,
) -> InboxMessage | None:
    """Return a request as a message of an inbox; None if it is none that can wait.

    Only a message of the user can: what else a request does refers to the history as it is now.
    Without ``message_id`` it has the id that the request gives it, or else a new one.
    """
    said = _said(request)
    if said is None:
        return None
    request = admitted(request)
    more = {"settings": request.settings, "extra": said.extra}
    asked = {**request.noted(), **{name: value for name, value in more.items() if value}}
    return InboxMessage(
        message_id=message_id or said.message_id,
        content=said.content,
        attachments=said.attachments,
        when_busy=when_busy,
        queued_at=queued_at,
        request=msgspec.to_builtins(asked, enc_hook=dict),
    )


def _said(request: TurnRequest) -> UserMessage | None:
    """Return the one message of the user that a request consists of; None for another request."""
    if request.rewind or request.decisions:
        return None
    if request.message is not None and not request.messages:
        return user_message(request.message, request.attachments)
    only = request.messages[0] if len(request.messages) == 1 else None
    return only if request.message is None and isinstance(only, UserMessage) else None


class QueuedPreparation:
    """Prepares a turn for the next message of a session's inbox (a ``Preparation``).

    A turn that was suspended, and whose questions are answered, goes on first: messages wait for
    the results of its calls.

    Args:
        preparer: Prepares all turns.
        answered: The questions that are answered.

    Attributes:
        request: The request of the turn that was prepared last.
    """

    def __init__(self, preparer: TurnPreparer, answered: AnsweredQuestions) -> None:
        self._preparer = preparer
        self._answered = answered
        self.request = TurnRequest()

    def must_ask(self, session: Session) -> bool:  # noqa: ARG002 - of any
        """Return that the session must be read: what waits in it may be new."""
        return True

    def require_next(self, session: Session) -> None:
        """Check that something waits. Blocks.

        Raises:
            NothingQueued: Nothing does.
        """
        if self._answered.request_of(session) is None:
            _next_in(session)

    async def look_up(self, session: Session) -> Prepare:
        """Look up what the next message needs.

        Raises:
            NothingQueued: There is none.
            ValidationFailed: A newer server queued it.
        """
        noted = await asyncio.to_thread(self._answered.request_of, session)
        if noted is not None:
            self.request = msgspec.structs.replace(
                request_of(noted), detached=True, expects=session.last_message_id
            )
            return await ResumedPreparation(self._preparer, self.request).look_up(session)
        message, session = _next_in(session)
        try:
            request = request_of(message.request)
        except msgspec.ValidationError as error:
            raise ValidationFailed(
                f"The request of queued message {message.message_id} can't be read: {error}.",
                field="request",
            ) from error
        self.request = msgspec.structs.replace(
            request,
            message=message.content,
            message_id=message.message_id,
            attachments=message.attachments,
            settings=message.request.get("settings", {}),
            detached=True,
        )
        prepare = await ChatPreparation(self._preparer, self.request).look_up(session)
        return partial(self._prepare, message, prepare)

    def _prepare(
        self, message: InboxMessage, prepare: Prepare, turn_id: str, session: Session
    ) -> TurnJob:
        """Make the job of the turn, whose session has the message no longer in its inbox.

        Raises:
            SettingsChanged: Another message is the next one by now.
            NothingQueued: None is.
        """
        current, recent = _next_in(session)
        if current != message:
            raise SettingsChanged(session)
        job = prepare(turn_id, recent)
        if extra := message.request.get("extra"):
            said = [msgspec.structs.replace(each, extra=extra) for each in job.messages[-1:]]
            job = msgspec.structs.replace(job, messages=[*job.messages[:-1], *said])
        inbox = job.session.inbox.begin(message, turn_id)
        return msgspec.structs.replace(job, session=with_inbox(job.session, inbox))


def _next_in(session: Session) -> tuple[InboxMessage, Session]:
    """Return the next message; one that a turn without a claim has taken is returned first."""
    session = recovered(session, has_begun=False)
    message = next_message(session)
    if message is None:
        raise NothingQueued
    return message, session
