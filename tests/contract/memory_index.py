"""An index of sessions in memory, for the contract of repositories that need one."""

import itertools
from collections.abc import Iterator, Sequence

from sessions_app.session import SessionMetadata
from sessions_app.store.repository import Claim, Listing


class MemorySessionIndex:
    """Knows what it was told, and which writes it was told only half of."""

    def __init__(self) -> None:
        self.etags: dict[str, str] = {}
        self.claimed: dict[str, Claim] = {}
        self.marks: dict[str, str] = {}
        self.compared = 0
        self._metadata: dict[str, SessionMetadata] = {}
        self._numbers: Iterator[int] = itertools.count()

    def writing(self, session_id: str) -> str:
        mark = str(next(self._numbers))
        self.marks[mark] = session_id
        return mark

    def wrote(
        self,
        session_id: str,
        mark: str,
        *,
        etag: str,
        metadata: SessionMetadata,
        claim: Claim | None = None,
    ) -> None:
        assert self.marks.pop(mark) == session_id
        self.etags[session_id] = etag
        self.claimed.pop(session_id, None)
        if claim is not None:
            self.claimed[session_id] = claim
        self._metadata[session_id] = metadata

    def removed(self, session_id: str, mark: str) -> None:
        assert self.marks.pop(mark) == session_id
        for known in (self.etags, self.claimed, self._metadata):
            known.pop(session_id, None)

    def unwritten(self, session_id: str, mark: str) -> None:
        assert self.marks.pop(mark) == session_id

    def claims(self) -> Sequence[Claim]:
        return list(self.claimed.values())

    def compare(self) -> None:
        """Count: nobody else puts objects in."""
        self.compared += 1

    def listing(self) -> Listing:
        sessions = sorted(
            self._metadata.values(),
            key=lambda found: (found.updated_at, found.session_id),
            reverse=True,
        )
        return Listing(sessions=tuple(sessions), unreadable=())
