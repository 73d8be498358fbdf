"""Checks the claims that are stored in objects, and finds them by hints."""

from collections.abc import Callable, Sequence

import msgspec

from sessions_app.ids_and_clock import is_session_id
from sessions_app.store.objects.claim_hints import ClaimHint, ClaimHints
from sessions_app.store.objects.session_objects import SessionObjects
from sessions_app.store.owners import Owners
from sessions_app.store.repository import Claim


class ObjectClaims:
    """The claims on the sessions of one store.

    Args:
        objects: The sessions, each with its claim.
        owners: The processes that may have made them.
        hints: Which sessions may be claimed.
        is_over: Whether a turn has ended although its claim is there (session, turn).
    """

    def __init__(
        self,
        objects: SessionObjects,
        *,
        owners: Owners,
        hints: ClaimHints,
        is_over: Callable[[str, str], bool],
    ) -> None:
        self._objects = objects
        self._owners = owners
        self._hints = hints
        self._is_over = is_over
        self._doubts: set[tuple[str, str]] = set()

    def judged(self, claim: Claim | None) -> Claim | None:
        """Return the claim, which counts as dead once its process is or its turn is over."""
        if claim is None:
            return None
        alive = bool(claim.owner) and self._owners.lives(claim.owner)
        if alive and claim.turn_id and self._is_over(claim.session_id, claim.turn_id):
            alive = False
        return claim if alive else msgspec.structs.replace(claim, alive=False)

    def announce(self, claim: Claim) -> None:
        """Leave a hint at a claim that is about to be made; ``StorageUnavailable``."""
        self._hints.note(ClaimHint.at(claim))

    def forget(self, session_id: str, turn_id: str) -> None:
        """Take back the hint at a claim that is no more, or was never made."""
        self._hints.clear(session_id, turn_id)

    def doubt(self, session_id: str, turn_id: str) -> None:
        """Remember that nobody knows whether a claim was made; its hint stays."""
        self._doubts.add((session_id, turn_id))

    def settle_doubts(self) -> None:
        """Forget the hints at claims that were not made after all."""
        for session_id, turn_id in tuple(self._doubts):
            document = self._objects.peek(session_id)
            found = document.envelope.claim if document is not None else None
            if found is None or found.turn_id != turn_id:
                self.forget(session_id, turn_id)
            self._doubts.discard((session_id, turn_id))

    def all(self) -> Sequence[Claim]:
        """Return the claims that hints name; of those of the dead, what the objects hold.

        One that a living process has left shows by its journal, and not here.
        """
        hints = self._hints.all()
        # One look at each process, and none at each turn: this is asked every second.
        lives = {owner: self._owners.lives(owner) for owner in {hint.owner for hint in hints}}
        claims = (self._hinted(hint, alive=lives[hint.owner]) for hint in hints)
        return [claim for claim in claims if claim is not None]

    def _hinted(self, hint: ClaimHint, *, alive: bool) -> Claim | None:
        """Return the claim that a hint names; forget a hint at what a dead process never made."""
        claim = Claim(
            session_id=hint.session_id,
            turn_id=hint.turn_id,
            owner=hint.owner,
            started_at=hint.started_at,
            alive=alive,
        )
        if alive or not is_session_id(hint.session_id):
            return claim
        document = self._objects.peek(hint.session_id)
        found = document.envelope.claim if document is not None else None
        if found is None or found.turn_id != hint.turn_id:
            self.forget(hint.session_id, hint.turn_id)
            return None
        return self.judged(found)
