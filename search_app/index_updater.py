"""Updates the index in a background thread."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from search_app.entries import entries_of
from search_app.index import IndexUnavailable, SearchIndex
from search_app.index_comparison import IndexComparison, compare
from search_app.scan import read_session
from search_app.writer import SessionRow, Step
from sessions_app.errors import StorageError
from sessions_app.session import SessionMetadata
from sessions_app.store.locks import FileLocks
from sessions_app.store.repository import Listing, SessionReader

RETRY_SECONDS = 30.0
"""The pause after the index could not be written."""
WORK_SECONDS = 0.0005
"""The longest work without a pause, and so the longest wait of streams for the GIL."""
RESTING_SHARE = 1.0
"""The pause after that, as a share of the time worked."""
ROUND = 500
"""The sessions per batch: the newest batch comes first, then batches from the oldest on."""
SESSIONS_OF_TRANSACTION = 20

logger = logging.getLogger(__name__)


class IndexUpdater:
    """Updates an index with changed sessions, in the one process that has the lock.

    Args:
        sessions: The sessions.
        index: The index.
        locks: Provides the lock.
        clock: A monotonic clock in seconds.
    """

    def __init__(
        self,
        sessions: SessionReader,
        index: SearchIndex,
        locks: FileLocks,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sessions = sessions
        self._index = index
        self._locks = locks
        self._clock = clock
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._retry_at = 0.0

    def start(self) -> None:
        """Start updating the index in a thread, unless one is running."""
        with self._starting:
            if self._closing.is_set() or self._clock() < self._retry_at:
                return
            if self._thread is not None and self._thread.is_alive():
                return
            self._thread = threading.Thread(target=self._run, name="search index", daemon=True)
            self._thread.start()

    def fill(self, *, rests: bool = False) -> None:
        """Update the index; do nothing while another process has the lock.

        Args:
            rests: Whether to pause in between for other threads.

        Raises:
            IndexUnavailable: The index can't be written.
            OSError: The lock's file can't be created.
        """
        try:
            lock = self._locks.held("search", timeout_seconds=0)
        except TimeoutError:
            return
        step = self._steps(RESTING_SHARE if rests else 0.0)
        with lock, suppress(_Closing):
            is_changing = True
            while is_changing:  # repeat for concurrent changes
                listing = self._sessions.list()
                is_changing = self._put_in_and_out(listing, self._compared(listing), step)

    def tidy(self) -> None:
        """Remove what was deleted from the index, if there is one, also where nobody searches.

        Sessions that were changed are removed whole, which reads none of them: a search does not
        look at them in the index, and adds them again. A broken index is removed.

        Does nothing while another process has the lock, which removes as much.

        Raises:
            IndexUnavailable: The index can't be written.
            OSError: The lock's file can't be created.
        """
        if self._closing.is_set():
            return
        try:
            lock = self._locks.held("search", timeout_seconds=0)
        except TimeoutError:
            return
        with lock, suppress(_Closing):
            try:
                with self._index.reading() as reader:
                    comparison = compare(self._sessions.list(), reader.stamps())
                if deleted := (*comparison.gone, *comparison.outdated):
                    with self._index.writing() as writer:
                        writer.take_out(deleted, self._steps(RESTING_SHARE))
            except IndexUnavailable as error:
                if error.is_broken:
                    self._index.remove()
                elif not error.is_missing:
                    raise

    def close(self) -> None:
        """Stop the thread for good."""
        with self._starting:
            self._closing.set()
            thread = self._thread
        if thread is not None:
            thread.join()
        self._locks.close()

    def _run(self) -> None:
        try:
            self.fill(rests=True)
        except (IndexUnavailable, OSError, StorageError) as error:
            self._retry_at = self._clock() + RETRY_SECONDS
            logger.warning("the search index can't be written: %s", error)
        except Exception:
            self._retry_at = self._clock() + RETRY_SECONDS
            logger.exception("the search index could not be updated")

    def _compared(self, listing: Listing) -> IndexComparison:
        """Return the sessions to update; rebuild a broken or missing index."""
        try:
            with self._index.reading() as reader:
                return compare(listing, reader.stamps())
        except IndexUnavailable as error:
            if not (error.is_broken or error.is_missing):
                raise
            if error.is_broken:
                logger.warning("the search index is being rebuilt: %s", error)
                self._index.remove()
        with self._index.writing():
            pass
        return compare(listing, {})

    def _put_in_and_out(self, listing: Listing, comparison: IndexComparison, step: Step) -> bool:
        """Update the index; return whether it changed, or was deleted meanwhile."""
        try:
            if comparison.gone:
                with self._index.writing() as writer:
                    writer.take_out(comparison.gone, step)
            return self._put(listing, comparison.pending, step)
        except IndexUnavailable as error:
            if not error.is_missing:
                raise
            return True

    def _put(self, listing: Listing, pending: Sequence[SessionMetadata], step: Step) -> bool:
        """Add sessions; return whether any could be read."""
        is_filled = False
        for start in range(0, len(pending), ROUND):
            oldest_first = pending[start : start + ROUND][::-1]
            with self._index.writing() as writer:
                for first in range(0, len(oldest_first), SESSIONS_OF_TRANSACTION):
                    some = oldest_first[first : first + SESSIONS_OF_TRANSACTION]
                    is_filled |= writer.put(self._rows(listing, some), step) > 0
        return is_filled

    def _rows(self, listing: Listing, sessions: Sequence[SessionMetadata]) -> Iterator[SessionRow]:
        for metadata in sessions:
            session = read_session(self._sessions, metadata.session_id)
            if session is not None:
                stamp = listing.stamps[metadata.session_id]  # of before it was read
                yield SessionRow(
                    metadata.session_id, stamp, metadata.updated_at, tuple(entries_of(session))
                )

    def _steps(self, resting_share: float) -> Step:
        """Return the callback for each entry, which pauses after some work."""
        begun = self._clock()

        def step() -> None:
            nonlocal begun
            worked = self._clock() - begun
            if worked >= WORK_SECONDS:
                self._closing.wait(worked * resting_share)
                begun = self._clock()
            if self._closing.is_set():
                raise _Closing

        return step


class _Closing(Exception):
    """Raised to stop the update; the rest is added another time."""
