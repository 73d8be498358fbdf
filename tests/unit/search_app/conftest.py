"""A search over a directory of sessions, whose index is filled when a test says so."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from search_app.index import Connect, SearchIndex
from search_app.index_updater import IndexUpdater
from search_app.query import read_query
from search_app.search_request import Results, SearchRequest
from search_app.service import SCAN_SECONDS, SessionSearch
from sessions_app.session import Session
from sessions_app.store.file_repository import FileSessionRepository
from sessions_app.store.locks import FileLocks
from tests.unit.conftest import MakeSession

FIRST_DAY = "2026-11-21T10:00:00.000000+00:00"


class CalledUpdater(IndexUpdater):
    """Fills the index when it is told to, and counts how often it was asked to."""

    asked = 0

    def start(self) -> None:
        self.asked += 1


class Archive:
    """Sessions in a directory, and the search in them."""

    def __init__(
        self,
        directory: Path,
        make_session: MakeSession,
        *,
        connect: Connect = sqlite3.connect,
        scan_seconds: float = SCAN_SECONDS,
    ) -> None:
        self.repository = FileSessionRepository(directory / "chat_sessions")
        self.path = directory / "state" / "search.sqlite3"
        self._make_session = make_session
        self.index = SearchIndex(self.path, connect=connect)
        self.locks = FileLocks(directory / "state")
        self.updater = CalledUpdater(self.repository, self.index, self.locks)
        self.search = SessionSearch(
            self.repository, self.index, self.updater, scan_seconds=scan_seconds
        )

    def keep(self, session_id: str, *texts: str, updated_at: str = FIRST_DAY) -> Session:
        """Keep a new session."""
        session = self._make_session(*texts, session_id=session_id, updated_at=updated_at)
        self.repository.create(session)
        return session

    def results(self, text: str, **wanted: object) -> Results:
        return self.search.search(SearchRequest(query=read_query(text), **wanted))  # type: ignore[arg-type]

    def find(self, text: str, **wanted: object) -> list[tuple[str, int]]:
        """Return the sessions and places of what is found."""
        return [
            (found.metadata.session_id, found.entry.place)
            for found in self.results(text, **wanted).found
        ]


MakeArchive = Callable[..., Archive]


@pytest.fixture
def make_archive(tmp_path: Path, make_session: MakeSession) -> MakeArchive:
    """Return a maker of archives, all of the same directory."""

    def make(**arguments: object) -> Archive:
        return Archive(tmp_path, make_session, **arguments)  # type: ignore[arg-type]

    return make


@pytest.fixture
def archive(make_archive: MakeArchive) -> Archive:
    return make_archive()
