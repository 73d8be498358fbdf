"""Removes attachments that no session refers to."""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from mochi_project.principal import DEFAULT_OWNER
from sessions_app.attachments.references import ids_in, ids_in_inbox
from sessions_app.attachments.session_directories import SessionDirectories
from sessions_app.attachments.store import AttachmentStore
from sessions_app.errors import SessionCorrupt, SessionNotFound
from sessions_app.store.file_repository import FileSessionRepository
from sessions_app.store.repository import SessionRepository

logger = logging.getLogger(__name__)

HOUR, DAY = 3600.0, 86_400.0
_MOST_LISTINGS = 5  # if sessions are deleted while they are read


class SweepTimes(dict[str, float]):
    """Holds when the attachments of each owner are swept next, also of those not loaded by then."""


class AttachmentSweep:
    """Sweeps attachments once a day, first an hour after the start.

    If there are files whose last use is more than a day ago, a sweep reads all sessions one by one,
    those of other servers, too. If there are no sessions, or a directory that used the files is not
    there, nothing is removed: a volume may not be mounted.

    Args:
        store: The attachments.
        repositories: All sessions of this server whose messages may refer to them, people's first.
        directories: Finds those of other servers; None if all servers have the same ones, as in an
            object store.
        clock: A monotonic clock in seconds.
        times: The times of all owners' sweeps.
        owner: The owner of the attachments.
    """

    def __init__(
        self,
        store: AttachmentStore,
        repositories: Sequence[SessionRepository],
        directories: SessionDirectories | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        times: SweepTimes | None = None,
        owner: str = DEFAULT_OWNER,
    ) -> None:
        self._store = store
        self._repositories = repositories
        self._directories = directories
        self._clock = clock
        self._times = SweepTimes() if times is None else times
        self._owner = owner
        self._times.setdefault(owner, clock() + HOUR)

    def run(self) -> int:
        """Sweep if it is due; return the number of removed files. Blocks."""
        if self._directories is not None:
            self._directories.note()
        if self._clock() < self._times[self._owner]:
            return 0
        self._times[self._owner] = self._clock() + DAY
        return self._store.sweep(self.referenced, older_than_seconds=DAY)

    def referenced(self) -> Collection[str] | None:
        """Return the ids that messages refer to; None if that is uncertain. Blocks."""
        directories = self._used_from()
        if directories is None:
            return None
        peoples, *others = self._repositories
        others += map(FileSessionRepository, directories)
        found = _ids_of(peoples, or_none=True)
        for repository in others:
            ids = _ids_of(repository)
            if ids is None or found is None:
                return None
            found |= ids
        # Again, so that what was not there for a moment is noticed.
        return found if self._used_from() == directories else None

    def _used_from(self) -> Sequence[Path] | None:
        """Return the directories of other servers' sessions; None if one may be unknown."""
        if self._directories is None:
            return ()
        used_from = self._directories.look()
        if used_from.absent:
            logger.warning(
                "unused attachments are kept: sessions that may use them are not there",
                extra={"absent": used_from.absent},
            )
        return used_from.others if used_from.is_complete else None


def _ids_of(repository: SessionRepository, *, or_none: bool = False) -> set[str] | None:
    """Return the ids in a repository's sessions; None if that is uncertain.

    With ``or_none``, it is uncertain if there are no sessions.

    A session deleted since it was listed may have been forked before: then the sessions are listed
    again to find the fork.
    """
    found: set[str] = set()
    seen: set[str] = set()
    for _ in range(_MOST_LISTINGS):
        listing = repository.list(anew=True)
        if listing.unreadable or not listing.complete:
            return None
        listed = {metadata.session_id for metadata in listing.sessions} - seen
        for session_id in listed:
            try:
                session = repository.load(session_id)
            except SessionNotFound:
                continue
            except SessionCorrupt:
                return None
            found.update(ids_in(session.messages), ids_in_inbox(session.inbox))
            seen.add(session_id)
        if listed <= seen:
            return found if seen or not or_none else None
    return None
