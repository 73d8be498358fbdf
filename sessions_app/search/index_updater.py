"""Updates the index in a background thread with the sessions that it lacks."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from sessions_app.errors import StorageError
from sessions_app.search.entries import entries_of
from sessions_app.search.index import SearchIndex
from sessions_app.search.index_state import IndexUnavailable
from sessions_app.search.pacing import Pace
from sessions_app.search.source import Source
from sessions_app.search.survey import Survey, Surveyor
from sessions_app.search.writer import SessionRow
from sessions_app.session import SessionMetadata
from sessions_app.store.locks import FileLocks
from sessions_app.store.repository import Listing

LOOK_SECONDS = 2.0
"""Sessions that seem unchanged are not looked at again for so long."""
RETRY_SECONDS = 30.0
"""An index that can't be written is left alone for so long."""
ROUND = 500
"""So many sessions go in from the oldest on; the newest so many are first."""
SESSIONS_OF_TRANSACTION = 20

logger = logging.getLogger(__name__)


class IndexFiller:
    """Puts into an index what has changed. One process at a time does, the one with the lock.

    Args:
        source: The sessions.
        index: The index.
        locks: Where the lock is taken.
        surveyor: What says what is missing.
        clock: What the time is.
    """

    def __init__(
        self,
        source: Source,
        index: SearchIndex,
        locks: FileLocks,
        surveyor: Surveyor,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._index = index
        self._locks = locks
        self._surveyor = surveyor
        self._clock = clock
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._next_look = 0.0
        self._retry_at = 0.0

    def start(self, *, is_due: bool) -> None:
        """Begin to bring the index up to date in a thread, unless one is at it.

        Args:
            is_due: Whether something is missing; otherwise this only looks, now and then.
        """
        now = self._clock()
        with self._starting:
            if self._closing.is_set() or now < self._retry_at:
                return
            if not is_due and now < self._next_look:
                return
            if self._thread is not None and self._thread.is_alive():
                return
            self._next_look = now + LOOK_SECONDS
            self._thread = threading.Thread(target=self._run, name="search index", daemon=True)
            self._thread.start()

    def fill(self, *, rests: bool = False) -> None:
        """Bring the index up to date; do nothing while another process is at it.

        Args:
            rests: Whether to leave time for other threads in between.

        Raises:
            IndexUnavailable: It can't be written.
            OSError: The lock's file can't be made.
        """
        try:
            lock = self._locks.held("search", timeout_seconds=0)
        except TimeoutError:
            return
        pace = Pace(self._clock, self._closing.wait) if rests else _not_resting
        with lock, suppress(_Closing):
            listing = self._source.listing(anew=True)
            survey = self._surveyed(listing)
            while self._put_in_and_out(survey, pace):  # and look for what came meanwhile
                survey = self._surveyed(self._source.listing())

    def close(self) -> None:
        """End the thread, and let none begin."""
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
            logger.exception("the search index could not be brought up to date")

    def _surveyed(self, listing: Listing) -> Survey:
        """Return what is missing; an index that is broken, or not there, is made anew."""
        try:
            with self._index.reading() as reader:
                return self._surveyor.survey(listing, reader)
        except IndexUnavailable as error:
            if not (error.is_broken or error.is_missing):
                raise
            if error.is_broken:
                logger.warning("the search index is built anew: %s", error)
                self._index.remove()
        with self._index.writing():
            pass
        with self._index.reading() as reader:
            return self._surveyor.survey(listing, reader)

    def _put_in_and_out(self, survey: Survey, pace: Callable[[], object]) -> bool:
        """Bring the index up to date; return whether it changed, or was deleted meanwhile."""
        try:
            if survey.gone:
                with self._index.writing() as writer:
                    writer.take_out(survey.gone, pace)
            return self._put(survey.pending, pace)
        except IndexUnavailable as error:
            if not error.is_missing:
                raise
            return True

    def _put(self, pending: Sequence[SessionMetadata], pace: Callable[[], object]) -> bool:
        """Put sessions in, and return whether there was any that could be read."""
        is_filled = False
        for start in range(0, len(pending), ROUND):
            oldest_first = pending[start : start + ROUND][::-1]
            with self._index.writing() as writer:
                for first in range(0, len(oldest_first), SESSIONS_OF_TRANSACTION):
                    some = oldest_first[first : first + SESSIONS_OF_TRANSACTION]
                    is_filled |= writer.put(self._rows(some), self._step(pace)) > 0
        return is_filled

    def _rows(self, sessions: Sequence[SessionMetadata]) -> Iterator[SessionRow]:
        for metadata in sessions:
            stamp = self._source.stamp(metadata)  # before it is read, or a change could be missed
            session = None if stamp is None else self._source.read(metadata.session_id)
            if stamp is not None and session is not None:
                yield SessionRow(
                    metadata.session_id, stamp, metadata.updated_at, tuple(entries_of(session))
                )

    def _step(self, pace: Callable[[], object]) -> Callable[[], None]:
        """Return what is called after each entry."""

        def step() -> None:
            if self._closing.is_set():
                raise _Closing
            pace()

        return step


def _not_resting() -> None:
    """Go on at once."""


class _Closing(Exception):
    """The work is to end; what was not put in is put in another time."""
