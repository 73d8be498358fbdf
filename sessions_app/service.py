"""Provides sessions to programs: the library behind ``/sessions``, usable without a server."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

import msgspec

from sessions_app.check import CheckReport, check_sessions
from sessions_app.errors import SessionExists
from sessions_app.export import to_markdown
from sessions_app.format.codec import encode
from sessions_app.ids_and_clock import new_session_id, utc_now
from sessions_app.labels import labels_of, with_labels
from sessions_app.list_query import ListQuery, Orders, SessionPage, Wanted, page_of
from sessions_app.message_editor import MessageEditor, system_message
from sessions_app.session import (
    AgentSettings,
    Session,
    SessionMetadata,
    ToolSettings,
    fork,
    make_session,
    set_system_prompt,
)
from sessions_app.settings import SettingsChanges, change_settings, given_settings
from sessions_app.store.file_repository import FileSessionRepository
from sessions_app.store.repository import Recover, SessionRepository
from sessions_app.text_rules import require_prompt

ExportFormat = Literal["json", "markdown"]


class SessionManager(MessageEditor):
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
        super().__init__(repository or FileSessionRepository(Path(sessions_dir)), recover)
        self._on_delete = on_delete
        self._orders = Orders()

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
    ) -> Session:
        """Make a new session.

        Args:
            model: The model that answers, e.g. ``qwen3:14b``. Not asked whether it exists.
            system_prompt: The text of the system prompt, if there shall be one.
            system_prompt_source_file: The prompt file that the text came from, as a label.
            tool_settings: Tools offered to the model; none unless given.
            agent_settings: Agents offered to the model; none unless given.
            options: Sampling options (temperature, seed, ...).
            summary_model: The model that shall write summaries where ``model`` can't.
            context_strategy: How a history that is too long is made to fit; None: the server's way.
            title: How it is called in lists; the server finds a title unless given.
            metadata: Whatever the client wants to remember of it: 16 keys, 4 KiB.
            session_id: Its id, ten hexadecimal digits in lower case; one is drawn unless given.

        Raises:
            SessionExists: The given id is taken.
            ValidationFailed: A text is blank or too long, or a value can't be saved as JSON.
            StorageFull: No space is left.
        """
        now = utc_now()
        session = make_session(
            session_id or new_session_id(),
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
            session = _prompted(session, system_prompt, system_prompt_source_file, now=now)
        return self.keep_new(session, any_id=session_id is None)

    def keep_new(self, session: Session, *, any_id: bool = True) -> Session:
        """Keep a new session, under another id if its own is taken; return it.

        Raises:
            SessionExists: Its id is taken, and ``any_id`` is false.
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
        return page_of(self.repository.list(), query, self._orders)

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
        original = self.get(session_id)
        now = utc_now()
        copy = fork(original, session_id=new_session_id(), now=now, message_index=message_index)
        return self.keep_new(with_labels(copy, **labels) if labels else copy)

    def delete(self, session_id: str, *, check: Callable[[Session], object] | None = None) -> None:
        """Delete a session for good; one that can't be read too.

        Args:
            session_id: The session.
            check: Called with the session in that moment; what it raises keeps the session.

        Raises:
            SessionBusy: A turn is running.
        """
        self.repository.delete(session_id, check=check)
        if self._on_delete is not None:
            self._on_delete(session_id)

    def check(self) -> CheckReport:
        """Read every session whole, and return what is wrong with those that can't be read."""
        return check_sessions(self.repository)

    def export(self, session_id: str, *, format: ExportFormat = "json") -> str:  # noqa: A002
        """Return a session as text: JSON as in its file (format 1.3), or Markdown to read."""
        session = self.get(session_id)
        return to_markdown(session) if format == "markdown" else encode(session).decode()


def _prompted(session: Session, text: str, source_file: str | None, *, now: str) -> Session:
    require_prompt(text, field="system_prompt")
    return set_system_prompt(session, system_message(text, source_file, now), now=now)
