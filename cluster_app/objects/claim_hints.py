"""Declares the port of claim hints, which list the sessions that may be claimed.

A claim is stored in its session's object, so finding all claims would mean reading all objects.
Hints may be out of date: the object is authoritative.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from sessions_app.store.repository import Claim


class ClaimHint(NamedTuple):
    """A claim that may have been made."""

    session_id: str
    turn_id: str
    owner: str
    started_at: str

    @classmethod
    def at(cls, claim: Claim) -> "ClaimHint":
        """Return the hint for a claim."""
        return cls(claim.session_id, claim.turn_id, claim.owner, claim.started_at)


class ClaimHints(Protocol):
    """Stores the hints for the claims of one store. All calls are quick."""

    def note(self, hint: ClaimHint) -> None:
        """Store a hint before its claim is written, so that it is found if the process dies.

        Raises:
            StorageUnavailable: It can't be stored; the claim must not be written.
        """

    def clear(self, session_id: str, turn_id: str) -> None:
        """Remove the hint for a claim that was released or never written.

        Never raises: if the hints can't be reached, they are removed later.
        """

    def all(self) -> Sequence[ClaimHint]:
        """Return all hints; raises ``StorageUnavailable``."""
