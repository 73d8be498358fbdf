"""Reads sessions, and changes their messages while no turn runs."""

import logging
from collections.abc import Callable, Sequence

import msgspec

from sessions_app.edits import (
    delete_message,
    edit_user_message,
    hide_message,
    index_of,
    places_meant,
)
from sessions_app.errors import SessionError, StorageError
from sessions_app.ids_and_clock import new_message_id, utc_now
from sessions_app.messages import Attachment, Message, SystemMessage, UserMessage
from sessions_app.session import Session, remove_system_prompt, set_system_prompt
from sessions_app.store.repository import Recover, SessionRepository
from sessions_app.text_rules import require_prompt
from sessions_app.variants import VariantChoice, choice_in, choose_variant

logger = logging.getLogger(__name__)

OnRemoval = Callable[[str, Sequence[Message]], None]
"""Takes in a session's id and the messages that were deleted from it."""


class MessageEdit(msgspec.Struct, frozen=True, kw_only=True):
    """The result of editing a message.

    Attributes:
        session_id: The session.
        message_index: The index of the message.
        message: The edited message.
        message_count: The new number of messages.
        removed: The number of messages removed after it.
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
        message_index: The index, or former index, of the first of them.
        messages: These messages, oldest first.
        message_count: The new number of messages of the session.
    """

    session_id: str
    message_index: int
    messages: Sequence[Message]
    message_count: int


class MessageEditor:
    """Reads sessions and changes their messages; raises ``SessionBusy`` while a turn runs.

    Args:
        repository: The session store.
        recover: Returns the recovered session, given a session whose turn died with its process
            and the claim of that turn; called before the session is read or changed.
        on_removal: Called with a session and messages that were deleted from it, in whole or in
            part; not with those that an edit removes.

    Attributes:
        repository: The session store.
    """

    def __init__(
        self,
        repository: SessionRepository,
        recover: Recover | None = None,
        on_removal: OnRemoval | None = None,
    ) -> None:
        self.repository = repository
        self._recover = recover
        self._on_removal = on_removal

    def get(self, session_id: str) -> Session:
        """Return a session with all its messages, after recovering a dead turn."""
        if self._recover is None:
            return self.repository.load(session_id)
        session, claim = self.repository.load_claimed(session_id)
        if claim is None or claim.alive:
            return session
        try:
            return self.change(session_id, lambda session: session)
        except Exception as error:  # a failed recovery must not prevent reading
            if not isinstance(error, (SessionError, StorageError)):
                logger.exception("recovery failed", extra={"session_id": session_id})
        return self.repository.load(session_id)

    def messages(self, session_id: str) -> Sequence[Message]:
        """Return the messages of a session, oldest first, the system prompt included."""
        return self.get(session_id).messages

    def change(self, session_id: str, change: Callable[[Session], Session]) -> Session:
        """Change a session by a function, which may be called again, and return it.

        Raises:
            SessionBusy: A turn is running.
        """
        return self.repository.update_idle(session_id, change, recover=self._recover)

    def remove(self, session_id: str, change: Callable[[Session], Session]) -> Session:
        """Change a session by a function that removes messages or parts of them, and return it.

        Raises:
            SessionBusy: A turn is running.
        """
        before, session = self._edit(session_id, change)
        left = {message.message_id: message for message in session.messages}
        gone = [each for each in before.messages if left.get(each.message_id) != each]
        self._tell_of(gone, session_id)
        return session

    def edit_message(
        self,
        session_id: str,
        index: int,
        content: str,
        *,
        message_id: str | None = None,
        attachments: tuple[Attachment, ...] | None = None,
    ) -> MessageEdit:
        """Replace the text of a user message, and remove all messages after it.

        Args:
            session_id: The session.
            index: Position among all messages, system prompt included, from 0.
            content: The new text.
            message_id: The expected id, as a guard against editing another message.
            attachments: The new images and files; None keeps the current ones.

        Raises:
            ValidationFailed: The new text is blank, and there are no attachments.
            InvalidMessageIndex: There is no user message at the index.
            MessageChanged: The message at the index has another id.
            SessionBusy: A turn is running.
        """
        before, session = self._edit(
            session_id,
            lambda session: edit_user_message(
                session,
                index,
                content,
                message_id=message_id,
                attachments=attachments,
                now=utc_now(),
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
        """Delete a message; messages before and after it stay.

        A model's message with tool calls and their results are deleted together.

        Args:
            session_id: The session.
            index: Position among all messages, system prompt included, from 0.
            message_id: The expected id, as a guard against deleting another message.

        Returns:
            The deleted messages.

        Raises:
            InvalidMessageIndex: There is no message at the index, or it is the system prompt.
            MessageChanged: The message at the index has another id.
            SessionBusy: A turn is running.
        """
        before, session = self._edit(
            session_id,
            lambda session: delete_message(session, index, message_id=message_id, now=utc_now()),
        )
        places = places_meant(before, index)
        deleted = before.messages[places.start : places.stop]
        self._tell_of(deleted, session_id)
        return MessageChange(
            session_id=session_id,
            message_index=places.start,
            messages=deleted,
            message_count=len(session.messages),
        )

    def hide_message(
        self, session_id: str, index: int, *, hidden: bool = True, message_id: str | None = None
    ) -> MessageChange:
        """Hide a message from models, or show it to them again; the session keeps it.

        A model's message with tool calls and their results are hidden together.

        Args:
            session_id: The session.
            index: Position among all messages, system prompt included, from 0.
            hidden: Whether to hide or to show it. Idempotent.
            message_id: The expected id, as a guard against hiding another message.

        Returns:
            The changed messages.

        Raises:
            InvalidMessageIndex: There is no message at the index, or it is the system prompt.
            MessageChanged: The message at the index has another id.
            SessionBusy: A turn is running.
        """
        _, session = self._edit(
            session_id,
            lambda session: hide_message(
                session, index, hidden=hidden, message_id=message_id, now=utc_now()
            ),
        )
        places = places_meant(session, index)
        return MessageChange(
            session_id=session_id,
            message_index=places.start,
            messages=session.messages[places.start : places.stop],
            message_count=len(session.messages),
        )

    def choose_variant(self, session_id: str, place: int | str, message_id: str) -> VariantChoice:
        """Make a variant of the last answer current; the current answer becomes a variant.

        Args:
            session_id: The session.
            place: Index or id of the answer's first assistant message, or of another with variants.
            message_id: A message of the variant. If it is one of the answer, nothing changes.

        Raises:
            InvalidMessageIndex: The last answer does not begin at the index.
            MessageChanged: There is no message with the id.
            VariantNotFound: The answer has no such variant.
            SessionBusy: A turn is running.
        """

        def choose(session: Session) -> Session:
            index = place if isinstance(place, int) else index_of(session.messages, place)
            return choose_variant(session, index, message_id, now=utc_now())

        return choice_in(self.change(session_id, choose))

    def set_system_prompt(
        self, session_id: str, content: str, *, source_file: str | None = None
    ) -> SystemMessage:
        """Set or replace the system prompt of a session.

        Raises:
            ValidationFailed: The text is blank, or has 10,000 characters or more.
            SessionBusy: A turn is running.
        """
        require_prompt(content, field="content")
        now = utc_now()
        prompt = system_message(content, source_file, now)
        self.change(session_id, lambda session: set_system_prompt(session, prompt, now=now))
        return prompt

    def remove_system_prompt(self, session_id: str) -> None:
        """Remove the system prompt of a session.

        Raises:
            SystemPromptNotSet: The session has none.
            SessionBusy: A turn is running.
        """
        self.change(session_id, lambda session: remove_system_prompt(session, now=utc_now()))

    def _tell_of(self, removed: Sequence[Message], session_id: str) -> None:
        if self._on_removal is not None:
            self._on_removal(session_id, removed)

    def _edit(self, session_id: str, edit: Callable[[Session], Session]) -> tuple[Session, Session]:
        """Change the messages of a session; return the session before that, and the new one."""
        before: list[Session] = []

        def noted(session: Session) -> Session:
            before[:] = [session]
            return edit(session)

        session = self.change(session_id, noted)
        return before[0], session


def system_message(content: str, source_file: str | None, now: str) -> SystemMessage:
    """Make a new system prompt."""
    return SystemMessage(
        content=content, source_file=source_file, message_id=new_message_id(), timestamp=now
    )
