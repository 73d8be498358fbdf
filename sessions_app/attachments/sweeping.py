"""Removes attachments that no session refers to."""

import time
from collections.abc import Callable, Collection, Sequence

from sessions_app.attachments.references import ids_in
from sessions_app.attachments.store import AttachmentStore
from sessions_app.errors import SessionCorrupt, SessionNotFound
from sessions_app.store.repository import SessionRepository

HOUR, DAY = 3600.0, 86_400.0
_MOST_LISTINGS = 5  # if sessions are deleted while they are read


class AttachmentSweep:
    """Sweeps attachments once a day, first an hour after the start.

    If there are files whose last use is more than a day ago, a sweep reads all sessions one by one.
    If there are no sessions, nothing is removed: their volume may not be mounted.

    Args:
        store: The attachments.
        repositories: All sessions whose messages may refer to them, people's first.
        clock: A monotonic clock in seconds.
    """

    def __init__(
        self,
        store: AttachmentStore,
        repositories: Sequence[SessionRepository],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._repositories = repositories
        self._clock = clock
        self._next = clock() + HOUR

    def run(self) -> int:
        """Sweep if it is due; return the number of removed files. Blocks."""
        if self._clock() < self._next:
            return 0
        self._next = self._clock() + DAY
        return self._store.sweep(self.referenced, older_than_seconds=DAY)

    def referenced(self) -> Collection[str] | None:
        """Return the ids that messages refer to; None if that is uncertain. Blocks."""
        peoples, *others = self._repositories
        found = _ids_of(peoples, or_none=True)
        for repository in others:
            ids = _ids_of(repository)
            if ids is None or found is None:
                return None
            found |= ids
        return found


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
                found.update(ids_in(repository.load(session_id).messages))
            except SessionNotFound:
                continue
            except SessionCorrupt:
                return None
            seen.add(session_id)
        if listed <= seen:
            return found if seen or not or_none else None
    return None
