"""Builds the search of sessions on first use."""

from pathlib import Path
from typing import TYPE_CHECKING

from mochi_project.configuration.config import MochiSettings
from sessions_app.store.repository import SessionReader

if TYPE_CHECKING:  # SQLite is imported only for a search
    from search_app.service import SessionSearch


def index_path(settings: MochiSettings) -> Path:
    """Return the path of the index, outside an untrusted folder, whose files may be malicious."""
    return settings.resolved_private_dir / "search.sqlite3"


def build_search(settings: MochiSettings, reader: SessionReader) -> "SessionSearch":
    """Build the search of a repository's sessions; opens nothing."""
    from search_app.index import SearchIndex  # noqa: PLC0415
    from search_app.index_comparison import IndexComparer  # noqa: PLC0415
    from search_app.index_updater import IndexUpdater  # noqa: PLC0415
    from search_app.service import SessionSearch  # noqa: PLC0415
    from search_app.source import SessionsInFiles, StoredSessions  # noqa: PLC0415
    from sessions_app.store.locks import FileLocks  # noqa: PLC0415

    source = (
        SessionsInFiles(reader, settings.resolved_sessions_dir)
        if settings.sessions_url is None
        else StoredSessions(reader)
    )
    index = SearchIndex(index_path(settings))
    comparer = IndexComparer(source)
    updater = IndexUpdater(source, index, FileLocks(settings.resolved_private_dir), comparer)
    return SessionSearch(source, index, updater, comparer)
