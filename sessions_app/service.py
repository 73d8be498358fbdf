"""Provides sessions to programs: the service behind ``/sessions``, usable without a server."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

import msgspec

from sessions_app.check import CheckReport, check_sessions
from sessions_app.edits import index_of
from sessions_app.errors import MochiError, SessionExists
from sessions_app.export import to_markdown
from sessions_app.format.codec import encode
from sessions_app.ids_and_clock import new_session_id, utc_now
from sessions_app.inbox import EMPTY_INBOX
from sessions_app.labels import labels_of, with_labels
from sessions_app.list_query import ListOptions, ListQuery, SessionPage, page_of
from sessions_app.message_editor import MessageEditor, OnRemoval, system_message
from sessions_app.session import (
    AgentSettings,
    Session,
    SessionMetadata,
    ToolSettings,
    fork,
    make_session,
    set_system_prompt,
    with_inbox,
)
from sessions_app.session_settings import (
    SettingsChanges,
    change_settings,
    given_settings,
    named_summary_model,
)
from sessions_app.store.file_repository import FileSessionRepository
from sessions_app.store.repository import Recover, SessionRepository
from sessions_app.text_rules import require_prompt

ExportFormat = Literal["json", "markdown"]
logger = logging.getLogger(__name__)


class SessionManager(MessageEditor):
    """Creates, reads, changes and deletes the sessions of one directory.

    Thread-safe, and safe to use beside a running server: changes are made under a lock across
    processes, and raise ``SessionBusy`` if a running turn forbids them. Every call blocks for
    milliseconds: in async code, call it in a worker thread.

    Methods that take a session id raise ``SessionNotFound`` for an unknown or malformed id, and
    ``SessionCorrupt`` for an unreadable file. Methods that write may raise ``StorageFull`` and
    ``SessionReadOnly`` (a newer format); then nothing was changed.

    Args:
        sessions_dir: The directory of session files; created with the first session.
        on_delete: Called with the id of every deleted session.
        on_removal: Called with a session's id and messages that were deleted from it.
        recover: Returns the recovered session, given a session whose turn died with its process
            and the claim of that turn; called before the session is read or changed.
        repository: The session store to use instead of files.
        expires: Whether age deletes sessions; imports then mark theirs.

    Attributes:
        repository: The session store.
        expires: Whether age deletes sessions.
    """

    def __init__(
        self,
        sessions_dir: str | os.PathLike[str],
        *,
        on_delete: Callable[[str], None] | None = None,
        on_removal: OnRemoval | None = None,
        recover: Recover | None = None,
        repository: SessionRepository | None = None,
        expires: bool = False,
    ) -> None:
        repository = repository or FileSessionRepository(Path(sessions_dir))
        super().__init__(repository, recover, on_removal)
        self.expires = expires
        self._on_delete = on_delete

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
        session_id: str | None = None,
        save: bool = True,
    ) -> Session:
        """Create a session.

        Args:
            model: The model that answers, e.g. ``qwen3:14b``; its existence is not checked.
            system_prompt: The text of the system prompt, if any.
            system_prompt_source_file: The prompt file of the text, as a label.
            tool_settings: Tools offered to the model; none unless given.
            agent_settings: Agents offered to the model; none unless given.
            options: Sampling options (temperature, seed, ...).
            summary_model: The model that writes summaries; None leaves it to the server.
            context_strategy: How a history that is too long is shortened; None for the default.
            title: The title in lists; generated if None.
            metadata: Arbitrary data of the client: up to 16 keys and 4 KiB.
            session_id: The id, ten lower-case hexadecimal digits; random if None.
            save: Whether to store it; its first turn may do that.

        Raises:
            SessionExists: The given id is taken.
            ValidationFailed: A text is blank or too long, or a value can't be saved as JSON.
        """
        session = make_session(
            session_id or new_session_id(),
            model,
            now=utc_now(),
            **named_summary_model(summary_model),
            context_strategy=context_strategy,
            tool_settings=tool_settings or ToolSettings(),
            agent_settings=agent_settings or AgentSettings(),
            options=options,
            **labels_of(title, metadata),
        )
        if system_prompt is not None:
            session = _prompted(session, system_prompt, system_prompt_source_file)
        return self.keep_new(session, any_id=session_id is None) if save else session

    def keep_new(self, session: Session, *, any_id: bool = True) -> Session:
        """Store a new session, under another id if its own is taken; return it.

        Raises:
            SessionExists: The id is taken, and ``any_id`` is false.
            StorageFull: No space is left.
        """
        while True:
            try:
                self.repository.create(session)
            except SessionExists:
                if not any_id:
                    raise
                metadata = msgspec.structs.replace(session.metadata, session_id=new_session_id())
                session = msgspec.structs.replace(session, metadata=metadata)
            else:
                return session

    def list(
        self,
        *,
        limit: int | None = None,
        offset: int = 0,
        q: str = "",
        **wanted: Unpack[ListOptions],
    ) -> SessionPage:
        """Return a page of sessions, most recently updated first unless ``sort`` says otherwise.

        Args:
            limit: The maximum number of sessions; None for all.
            offset: The number of sessions to skip.
            q: Only sessions with this text in title, preview, summary or topics, ignoring case.
            **wanted: Filters, order and cursor, by name; see ``ListQuery``.

        Raises:
            ValidationFailed: The cursor is invalid for this order.
        """
        query = ListQuery(limit=limit, offset=offset, q=q, **wanted)
        return page_of(self.repository.list(), query)

    def list_sessions(self) -> Sequence[SessionMetadata]:
        """Return all readable sessions, most recently updated first."""
        return self.list().sessions

    def update(
        self,
        session_id: str,
        *,
        check: Callable[[Session], object] | None = None,
        **changes: Unpack[SettingsChanges],
    ) -> Session:
        """Change the given settings of a session.

        Also works during a turn, which keeps the settings it began with.

        Args:
            session_id: The session.
            check: Raises an error to refuse the changes, given the session as it is.
            **changes: The new settings, by name; see ``SettingsChanges``.

        Raises:
            ValidationFailed: The model is blank, the window not positive, or a value not JSON.
        """
        given = given_settings(changes)

        def change(session: Session) -> Session:
            if check is not None:
                check(session)
            return change_settings(session, given, now=utc_now())

        return self.repository.update(session_id, change)

    def fork(
        self,
        session_id: str,
        *,
        message_index: int | str | None = None,
        title: str | None = None,
    ) -> Session:
        """Copy a session up to and including a message (the last one by default).

        Args:
            session_id: The session.
            message_index: The index or the id of the last message to copy.
            title: The title of the copy; that of the original if None.

        Raises:
            InvalidMessageIndex: There is no message at the index.
            MessageChanged: There is no message with the id.
            SessionReadOnly: The session has a format that this server can't write.
            ValidationFailed: The title is blank or too long.
        """
        labels = labels_of(title, None)
        original = self.get(session_id)
        now = utc_now()
        if isinstance(message_index, str):
            message_index = index_of(original.messages, message_index)
        copy = fork(original, session_id=new_session_id(), now=now, message_index=message_index)
        return self.keep_new(with_labels(copy, **labels) if labels else copy)

    def delete(self, session_id: str, *, check: Callable[[Session], object] | None = None) -> None:
        """Delete a session permanently, even an unreadable one.

        What else there is of it may stay if the store fails then; sweeps delete it later.

        Args:
            session_id: The session.
            check: Called with the session just before; if it raises, the session is kept.

        Raises:
            SessionBusy: A turn is running.
        """
        self.repository.delete(session_id, check=check)
        if self._on_delete is not None:
            try:
                self._on_delete(session_id)
            except (MochiError, OSError) as error:  # the session is deleted all the same
                logger.warning(
                    "journals or records of a deleted session were not removed: %s",
                    error,
                    extra={"session_id": session_id},
                )

    def check(self) -> CheckReport:
        """Read every session completely, and report those that can't be read."""
        return check_sessions(self.repository)

    def export(self, session_id: str, *, format: ExportFormat = "json") -> str:  # noqa: A002
        """Return a session as text: JSON as in its file (format 1.3), or Markdown.

        Messages of its inbox are left out.
        """
        session = with_inbox(self.get(session_id), EMPTY_INBOX)
        return to_markdown(session) if format == "markdown" else encode(session).decode()


def _prompted(session: Session, text: str, source_file: str | None) -> Session:
    require_prompt(text, field="system_prompt")
    now = session.metadata.created_at
    return set_system_prompt(session, system_message(text, source_file, now), now=now)
