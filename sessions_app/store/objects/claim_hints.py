"""Declares the port to hints about which sessions may be claimed.

A claim is in the object of its session, where nobody finds it who does not know the session. A hint
names it; it is only a hint, and the object decides.
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
        """Return the hint at a claim."""
        return cls(claim.session_id, claim.turn_id, claim.owner, claim.started_at)


class ClaimHints(Protocol):
    """The hints at claims on the sessions of one store. All calls take a moment."""

    def note(self, hint: ClaimHint) -> None:
        """Note a claim that is about to be made, so that a death in between is found.

        Raises:
            StorageUnavailable: It can't be noted; then no claim may be made.
        """

    def clear(self, session_id: str, turn_id: str) -> None:
        """Forget a claim that is no more, or never was.

        Raises nothing because the hints are out of reach: then they are cleared later.
        """

    def all(self) -> Sequence[ClaimHint]:
        """Return all hints; raises ``StorageUnavailable``."""
