"""Reads sessions, and changes their messages while no turn runs."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from sessions_app.edits import delete_message, edit_user_message, hide_message, places_meant
from sessions_app.errors import SessionError, StorageError
from sessions_app.ids_and_clock import new_message_id, utc_now
from sessions_app.messages import Attachment, Message, SystemMessage, UserMessage
from sessions_app.session import Session, remove_system_prompt, set_system_prompt
from sessions_app.store.repository import Recover, SessionRepository
from sessions_app.text_rules import require_prompt
from sessions_app.variants import VariantChoice, choice_in, choose_variant

logger = logging.getLogger(__name__)


class MessageEdit(msgspec.Struct, frozen=True, kw_only=True):
    """The result of editing a message.

    Attributes:
        session_id: The session.
        message_index: Where the message stands.
        message: The message as it is now.
        message_count: How many messages there are now.
        removed: How many messages after it were cut off.
    """

    session_id: str
    message_index: int
    message: UserMessage
    message_count: int
    removed: int


class MessageChange(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that were deleted or hidden together.

    Attributes:
        session_id: The session.
        message_index: Where the first of them stands, or stood.
        messages: These messages, oldest first.
        message_count: How many messages the session has now.
    """

    session_id: str
    message_index: int
    messages: Sequence[Message]
    message_count: int


class MessageEditor:
    """Reads sessions and changes their messages; what a running turn forbids is ``SessionBusy``.

    Args:
        repository: Where the sessions are kept.
        recover: Called with a session whose turn died with its process, and the claim of that turn,
            before the session is read or changed; returns the session as it shall be.

    Attributes:
        repository: Where the sessions are kept.
    """

    def __init__(self, repository: SessionRepository, recover: Recover | None = None) -> None:
        self.repository = repository
        self._recover = recover

    def get(self, session_id: str) -> Session:
        """Return a session with all its messages."""
        return self._load(session_id)

    def messages(self, session_id: str) -> Sequence[Message]:
        """Return the messages of a session, oldest first, the system prompt included."""
        return self._load(session_id).messages

    def change(self, session_id: str, change: Callable[[Session], Session]) -> Session:
        """Change a session by a function, which may be called again, and return it.

        Raises:
            SessionBusy: A turn is running.
        """
        return self._update_idle(session_id, change)

    def edit_message(
        self,
        session_id: str,
        index: int,
        content: str,
        *,
        message_id: str | None = None,
        attachments: tuple[Attachment, ...] | None = None,
    ) -> MessageEdit:
        """Replace the text of a user message, and cut off every message after it.

        Args:
            session_id: The session.
            index: Position among all messages, system prompt included, from 0.
            content: The new text.
            message_id: The message that is meant, as a guard against editing another.
            attachments: Its images and files from now on; those that it has, unless given.

        Raises:
            ValidationFailed: The new text is blank, and nothing is attached.
            InvalidMessageIndex: There is no user message at the index.
            MessageChanged: ``message_id`` is another message's.
            SessionBusy: A turn is running.
        """
        before, session = self._edit(
            session_id,
            partial(
                edit_user_message,
                index=index,
                content=content,
                message_id=message_id,
                attachments=attachments,
            ),
        )
        message = session.messages[index]
        assert isinstance(message, UserMessage)  # noqa: S101 - edit_user_message saw to it
        return MessageEdit(
            session_id=session_id,
            message_index=index,
            message=message,
            message_count=len(session.messages),
            removed=len(before.messages) - len(session.messages),
        )

    def delete_message(
        self, session_id: str, index: int, *, message_id: str | None = None
    ) -> MessageChange:
        """Delete a message; what comes before and after stays.

        The calls of a model's message and their results go together, whichever is named.

        Args:
            session_id: The session.
            index: Position among all messages, system prompt included, from 0.
            message_id: The message that is meant, as a guard against deleting another.

        Returns:
            The messages that were deleted.

        Raises:
            InvalidMessageIndex: There is no message at the index, or it is the system prompt.
            MessageChanged: ``message_id`` is another message's.
            SessionBusy: A turn is running.
        """
        change = partial(delete_message, index=index, message_id=message_id)
        before, session = self._edit(session_id, change)
        places = places_meant(before, index)
        return MessageChange(
            session_id=session_id,
            message_index=places.start,
            messages=before.messages[places.start : places.stop],
            message_count=len(session.messages),
        )

    def hide_message(
        self, session_id: str, index: int, *, hidden: bool = True, message_id: str | None = None
    ) -> MessageChange:
        """Hide a message from models, or show it to them again; the session keeps it.

        The calls of a model's message and their results are hidden together, whichever is named.

        Args:
            session_id: The session.
            index: Position among all messages, system prompt included, from 0.
            hidden: Whether it is hidden from now on; doing it twice is doing it once.
            message_id: The message that is meant, as a guard against hiding another.

        Returns:
            The messages as they are now.

        Raises:
            InvalidMessageIndex: There is no message at the index, or it is the system prompt.
            MessageChanged: ``message_id`` is another message's.
            SessionBusy: A turn is running.
        """
        change = partial(hide_message, index=index, hidden=hidden, message_id=message_id)
        _, session = self._edit(session_id, change)
        places = places_meant(session, index)
        return MessageChange(
            session_id=session_id,
            message_index=places.start,
            messages=session.messages[places.start : places.stop],
            message_count=len(session.messages),
        )

    def choose_variant(self, session_id: str, index: int, message_id: str) -> VariantChoice:
        """Make a variant of the last answer the answer again; the present one becomes a variant.

        Args:
            session_id: The session.
            index: Position of the answer's first assistant message, the one with ``variants``.
            message_id: A message of the variant. If it is one of the answer, nothing changes.

        Raises:
            InvalidMessageIndex: The last answer does not begin at the index.
            VariantNotFound: The answer has no such variant.
            SessionBusy: A turn is running.
        """
        return choice_in(
            self._update_idle(
                session_id,
                lambda session: choose_variant(session, index, message_id, now=utc_now()),
            )
        )

    def set_system_prompt(
        self, session_id: str, content: str, *, source_file: str | None = None
    ) -> SystemMessage:
        """Give a session a system prompt, in place of the one it has.

        Raises:
            ValidationFailed: The text is blank, or has 10,000 characters or more.
            SessionBusy: A turn is running.
        """
        require_prompt(content, field="content")
        now = utc_now()
        prompt = system_message(content, source_file, now)
        self._update_idle(session_id, lambda session: set_system_prompt(session, prompt, now=now))
        return prompt

    def remove_system_prompt(self, session_id: str) -> None:
        """Take a session's system prompt away.

        Raises:
            SystemPromptNotSet: It has none.
            SessionBusy: A turn is running.
        """
        self._update_idle(session_id, lambda session: remove_system_prompt(session, now=utc_now()))

    def _load(self, session_id: str) -> Session:
        """Return the session, with what its last turn left if that died with its process."""
        if self._recover is None:
            return self.repository.load(session_id)
        session, claim = self.repository.load_claimed(session_id)
        if claim is None or claim.alive:
            return session
        try:
            return self._update_idle(session_id, lambda session: session)
        except Exception as error:  # reading never fails because recovering did
            if not isinstance(error, (SessionError, StorageError)):
                logger.exception("recovery failed", extra={"session_id": session_id})
        return self.repository.load(session_id)

    def _edit(self, session_id: str, edit: Callable[..., Session]) -> tuple[Session, Session]:
        """Change the messages of a session, and return it as it was and as it is now."""
        while True:
            before = self._load(session_id)
            change = partial(_edited, before=before.messages, edit=edit)
            with suppress(_Overtaken):
                return before, self._update_idle(session_id, change)

    def _update_idle(self, session_id: str, change: Callable[[Session], Session]) -> Session:
        return self.repository.update_idle(session_id, change, recover=self._recover)


class _Overtaken(Exception):
    """The messages of a session changed since they were read."""


def _edited(
    session: Session, *, before: Sequence[Message], edit: Callable[..., Session]
) -> Session:
    if session.messages != before:
        raise _Overtaken
    return edit(session, now=utc_now())


def system_message(content: str, source_file: str | None, now: str) -> SystemMessage:
    """Return a system prompt that is made now."""
    return SystemMessage(
        content=content, source_file=source_file, message_id=new_message_id(), timestamp=now
    )
