"""Provides the search of sessions, built on first use."""

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mochi_project.app import Factory, Services
from mochi_project.configuration.app_settings import AppSettings
from search_app.places import SearchPlaces
from sessions_app.service import SessionManager
from sessions_app.store.repository import SessionReader
from tools_app.recall.search import ConversationSearch

if TYPE_CHECKING:  # SQLite is imported only for a search
    from search_app.service import SessionSearch


def index_path(settings: AppSettings) -> Path:
    """Return the path of the index, outside an untrusted folder, whose files may be malicious."""
    return settings.resolved_private_dir / "search.sqlite3"


def build_search(settings: AppSettings, reader: SessionReader) -> "SessionSearch":
    """Build the search of a repository's sessions; opens nothing."""
    from search_app.index import SearchIndex  # noqa: PLC0415
    from search_app.index_updater import IndexUpdater  # noqa: PLC0415
    from search_app.service import SessionSearch  # noqa: PLC0415
    from sessions_app.store.locks import FileLocks  # noqa: PLC0415

    index = SearchIndex(index_path(settings))
    updater = IndexUpdater(reader, index, FileLocks(settings.resolved_private_dir))
    return SessionSearch(reader, index, updater)


def _search(services: Services) -> "SessionSearch":
    search = build_search(services.get(AppSettings), services.get(SessionManager).repository)
    services.on_close(partial(asyncio.to_thread, search.updater.close))
    return search


def _session_search(services: Services) -> "SessionSearch":
    from search_app.service import SessionSearch  # noqa: PLC0415 - imports SQLite

    return services.get(SessionSearch)


def _recall_search(services: Services) -> ConversationSearch:
    from search_app.recall import RecallSearch  # noqa: PLC0415 - it imports Ninja

    return RecallSearch(partial(_session_search, services), services.get(SearchPlaces))


def tidy(services: Services) -> None:
    """Remove what was deleted from the index; without one, open nothing. Blocks."""
    if not index_path(services.get(AppSettings)).exists():
        return
    _session_search(services).updater.tidy()


FACTORIES: Mapping[type | str, Factory] = {
    SearchPlaces: lambda _: SearchPlaces(),
}
OWNED: Mapping[type | str, Factory] = {
    "search_app.service.SessionSearch": _search,  # by its name: it imports SQLite
    ConversationSearch: _recall_search,
}
