"""What searching costs: with the index, after a change, without the index. In this process."""

import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from storage import SETTLED_SECONDS, filled_folder, message, replaced_by, timed

from search_app.index import SearchIndex
from search_app.index_updater import IndexUpdater
from search_app.query import read_query
from search_app.search_request import SearchRequest
from search_app.service import SessionSearch
from sessions_app.service import SessionManager
from sessions_app.store.locks import FileLocks

MESSAGES = 8


class NoThread(IndexUpdater):
    """Fills the index only when it is told to, so that nothing else runs."""

    def start(self) -> None:
        """Do nothing."""


def searching(sessions: int) -> dict[str, float]:
    """Seconds to search in sessions of eight messages, and messages a second for the index.

    ``rare`` is in one session, ``common`` in all messages; ``changed`` is after one was saved.
    """
    with filled_folder(sessions) as folder, TemporaryDirectory(prefix="mochi-bench-") as state:
        time.sleep(SETTLED_SECONDS)
        repository = SessionManager(folder).repository
        index = SearchIndex(Path(state) / "search.sqlite3")
        updater = NoThread(repository, index, FileLocks(state))
        search = SessionSearch(repository, index, updater, scan_seconds=600)
        rare, common = (
            SearchRequest(query=read_query(text)) for text in ("0000000007", "words follow")
        )
        scan = median(timed(lambda: search.search(rare)) for _ in range(3))
        filled = timed(lambda: updater.fill(rests=True))
        assert search.state() == ("ready", 0)
        times = {
            name: median(timed(lambda: search.search(wanted)) for _ in range(20))  # noqa: B023
            for name, wanted in (("rare", rare), ("common", common))
        }
        changed = []
        for metadata in repository.list().sessions[:5]:
            repository.update(metadata.session_id, replaced_by((message(0), message(1))))
            changed.append(timed(lambda: search.search(rare)))
        updater.close()
    return times | {
        "scan": scan,
        "changed": median(changed),
        "fill": sessions * MESSAGES / filled,
    }
