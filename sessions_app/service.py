"""Provides sessions to programs: the library behind ``/sessions``, usable without a server."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, Unpack

import msgspec

from sessions_app.check import CheckReport, check_sessions
from sessions_app.errors import (
    SessionError,
    SessionExists,
    StorageError,
)
from sessions_app.export import to_markdown
from sessions_app.format.codec import encode
from sessions_app.ids_and_clock import new_message_id, new_session_id, utc_now
from sessions_app.labels import labels_of, with_labels
from sessions_app.list_query import ListQuery, SessionPage, Wanted, page_of
from sessions_app.messages import Attachment, Message, SystemMessage, UserMessage
from sessions_app.session import (
    AgentSettings,
    Session,
    SessionMetadata,
    ToolSettings,
    edit_user_message,
    fork,
    make_session,
    remove_system_prompt,
    set_system_prompt,
)
from sessions_app.settings import SettingsChanges, change_settings, given_settings
from sessions_app.store.file_repository import FileSessionRepository
from sessions_app.store.repository import Recover, SessionRepository
from sessions_app.text_rules import require_prompt
from sessions_app.variants import VariantChoice, choice_in, choose_variant

logger = logging.getLogger(__name__)

ExportFormat = Literal["json", "markdown"]


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


class SessionManager:
    """Creates, reads, changes and deletes the sessions of one directory.

    Safe to use from several threads, and beside a running server: changes run under a lock that
    holds across processes, and what a running turn forbids raises ``SessionBusy``. Every call
    blocks for milliseconds: in async code, call it from a worker thread.

    Methods that take a session id raise ``SessionNotFound`` for one that is unknown or malformed,
    and ``SessionCorrupt`` for a file that can't be read. What writes may raise ``StorageFull`` and
    ``SessionReadOnly`` (a newer format); then everything is as it was before.

    Args:
        sessions_dir: Where the session files are; made when the first session is.
        on_delete: Called with the id of every session that was deleted.
        recover: Called with a session whose turn died with its process, and the claim of that turn,
            before the session is read or changed; returns the session as it shall be.
        repository: Where sessions are kept instead of in files.

    Attributes:
        repository: Where the sessions are kept.
    """

    def __init__(
        self,
        sessions_dir: str | os.PathLike[str],
        *,
        on_delete: Callable[[str], None] | None = None,
        recover: Recover | None = None,
        repository: SessionRepository | None = None,
    ) -> None:
        self.repository: SessionRepository = repository or FileSessionRepository(Path(sessions_dir))
        self._on_delete = on_delete
        self._recover = recover

    def create(
        self,
        model: str,
        *,
        system_prompt: str | None = None,
        system_prompt_source_file: str | None = None,
        tool_settings: ToolSettings | None = None,
        agent_settings: AgentSettings | None = None,
        options: Mapping[str, Any] | None = None,
        summary_model: str | None = None,
        context_strategy: str | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Session:
        """Make a new session.

        Args:
            model: The model that shall answer, e.g. ``qwen3:14b``. Not asked whether it exists.
            system_prompt: The text of the system prompt, if there shall be one.
            system_prompt_source_file: Name of the prompt file that the text came from, as a label.
            tool_settings: Tools offered to the model; none unless given.
            agent_settings: Agents offered to the model; none unless given.
            options: Sampling options (temperature, seed, ...).
            summary_model: The model that shall write summaries where ``model`` can't.
            context_strategy: How a history that is too long is made to fit; None: the server's way.
            title: How it is called in lists; the server finds a title unless given.
            metadata: Whatever the client wants to remember of it: 16 keys, 4 KiB.

        Raises:
            ValidationFailed: A text is blank, the prompt or the title is too long, or a value can't
                be saved as JSON.
            StorageFull: No space is left.
        """
        now = utc_now()
        session = make_session(
            new_session_id(),
            model,
            now=now,
            summary_model=summary_model,
            context_strategy=context_strategy,
            tool_settings=tool_settings or ToolSettings(),
            agent_settings=agent_settings or AgentSettings(),
            options=options,
            **labels_of(title, metadata),
        )
        if system_prompt is not None:
            require_prompt(system_prompt, field="system_prompt")
            prompt = _system_message(system_prompt, system_prompt_source_file, now)
            session = set_system_prompt(session, prompt, now=now)
        return self.keep_new(session)

    def keep_new(self, session: Session) -> Session:
        """Keep a new session, under another id if its own is taken; return it.

        Raises:
            StorageFull: No space is left.
        """
        while True:
            try:
                self.repository.create(session)
            except SessionExists:
                metadata = msgspec.structs.replace(session.metadata, session_id=new_session_id())
                session = msgspec.structs.replace(session, metadata=metadata)
            else:
                return session

    def get(self, session_id: str) -> Session:
        """Return a session with all its messages."""
        return self._load(session_id)

    def messages(self, session_id: str) -> Sequence[Message]:
        """Return the messages of a session, oldest first, the system prompt included."""
        return self._load(session_id).messages

    def list(
        self,
        *,
        limit: int | None = None,
        offset: int = 0,
        q: str = "",
        **wanted: Unpack[Wanted],
    ) -> SessionPage:
        """Return a page of sessions, most recently updated first unless ``sort`` says otherwise.

        Args:
            limit: How many at most; None for all.
            offset: How many to leave out at the beginning.
            q: Only sessions with this text in title, preview, summary or topics, in upper or lower
                case.
            **wanted: Filters, order and cursor, by name; see ``ListQuery``.

        Raises:
            ValidationFailed: The cursor is none of this order.
        """
        query = ListQuery(limit=limit, offset=offset, q=q, **wanted)
        return page_of(self.repository.list(), query)

    def list_sessions(self) -> Sequence[SessionMetadata]:
        """Return all sessions that can be read, most recently updated first."""
        return self.list().sessions

    def update(self, session_id: str, **changes: Unpack[SettingsChanges]) -> Session:
        """Change settings of a session; what is not given stays as it is.

        Works while a turn runs, for which the settings stay those it began with.

        Args:
            session_id: The session.
            **changes: The new settings, by name; see ``SettingsChanges``.

        Raises:
            ValidationFailed: The model is blank, the window not positive, or a value is no JSON.
        """
        given = given_settings(changes)
        return self.repository.update(
            session_id, lambda session: change_settings(session, given, now=utc_now())
        )

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
        while True:
            before = self._load(session_id).messages
            change = partial(
                _edit,
                before=before,
                index=index,
                content=content,
                message_id=message_id,
                attachments=attachments,
            )
            with suppress(_Overtaken):
                session = self._update_idle(session_id, change)
                break
        message = session.messages[index]
        assert isinstance(message, UserMessage)  # noqa: S101 - edit_user_message saw to it
        return MessageEdit(
            session_id=session_id,
            message_index=index,
            message=message,
            message_count=len(session.messages),
            removed=len(before) - len(session.messages),
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
        prompt = _system_message(content, source_file, now)
        self._update_idle(session_id, lambda session: set_system_prompt(session, prompt, now=now))
        return prompt

    def remove_system_prompt(self, session_id: str) -> None:
        """Take a session's system prompt away.

        Raises:
            SystemPromptNotSet: It has none.
            SessionBusy: A turn is running.
        """
        self._update_idle(session_id, lambda session: remove_system_prompt(session, now=utc_now()))

    def fork(
        self, session_id: str, *, message_index: int | None = None, title: str | None = None
    ) -> Session:
        """Copy a session up to and including a message (the last one by default).

        Args:
            session_id: The session.
            message_index: The last message to copy.
            title: How the copy is called; as the original unless given.

        Raises:
            InvalidMessageIndex: There is no message at the index.
            SessionReadOnly: It has a format that can't be written here.
            ValidationFailed: The title is blank or too long.
        """
        labels = labels_of(title, None)
        original = self._load(session_id)
        now = utc_now()
        copy = fork(original, session_id=new_session_id(), now=now, message_index=message_index)
        return self.keep_new(with_labels(copy, **labels) if labels else copy)

    def delete(self, session_id: str) -> None:
        """Delete a session for good; one that can't be read too.

        Raises:
            SessionBusy: A turn is running.
        """
        self.repository.delete(session_id)
        if self._on_delete is not None:
            self._on_delete(session_id)

    def check(self) -> CheckReport:
        """Read every session whole, and return what is wrong with those that can't be read."""
        return check_sessions(self.repository)

    def export(self, session_id: str, *, format: ExportFormat = "json") -> str:  # noqa: A002
        """Return a session as text: JSON as in its file (format 1.3), or Markdown to read."""
        session = self._load(session_id)
        return to_markdown(session) if format == "markdown" else encode(session).decode()

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

    def _update_idle(self, session_id: str, change: Callable[[Session], Session]) -> Session:
        return self.repository.update_idle(session_id, change, recover=self._recover)


class _Overtaken(Exception):
    """The messages of a session changed since they were read."""


def _edit(session: Session, *, before: Sequence[Message], **edit: Any) -> Session:
    if session.messages != before:
        raise _Overtaken
    return edit_user_message(session, now=utc_now(), **edit)


def _system_message(content: str, source_file: str | None, now: str) -> SystemMessage:
    return SystemMessage(
        content=content, source_file=source_file, message_id=new_message_id(), timestamp=now
    )
