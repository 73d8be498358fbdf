"""Builds the search of sessions on first use."""

import asyncio
import threading
from collections.abc import Callable
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


MOST_AT_ONCE = 1
"""The maximum concurrent searches of clients; others wait. Two threads that use SQLite pass the GIL
to each other and starve the event loop."""


class SearchWhenUsed:
    """Holds the search service of a process, built on first use.

    Attributes:
        places: Limits the concurrent searches of clients.
    """

    def __init__(self) -> None:
        self.places = asyncio.Semaphore(MOST_AT_ONCE)
        self._lock = threading.Lock()
        self._search: SessionSearch | None = None

    def get(self, build: Callable[[], "SessionSearch"]) -> "SessionSearch":
        """Return the search service; build it at the first call."""
        with self._lock:
            if self._search is None:
                self._search = build()
            return self._search

    def tidy(self, settings: MochiSettings, reader: SessionReader) -> None:
        """Remove what was deleted from the index; without one, open nothing. Blocks."""
        if index_path(settings).exists():
            self.get(lambda: build_search(settings, reader)).tidy()

    def close(self) -> None:
        """Close the search service, if it was used."""
        with self._lock:
            if self._search is not None:
                self._search.close()
