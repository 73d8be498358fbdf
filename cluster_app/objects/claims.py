"""Checks the claims that are stored in objects, and finds them by hints."""

from collections.abc import Callable, Sequence

import msgspec

from cluster_app.objects.claim_hints import ClaimHint, ClaimHints
from cluster_app.objects.session_objects import SessionObjects
from sessions_app.ids_and_clock import is_session_id
from sessions_app.store.owners import Owners
from sessions_app.store.repository import Claim


class ObjectClaims:
    """Evaluates the claims on the sessions of one store.

    Args:
        objects: The sessions, each with its claim.
        owners: Tells which processes are alive.
        hints: The claims that may exist.
        is_over: Returns whether a turn (session id, turn id) has ended although its claim remains.
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

    def evaluated(self, claim: Claim | None) -> Claim | None:
        """Return the claim; ``alive`` is false if its process is dead or its turn has ended."""
        if claim is None:
            return None
        alive = bool(claim.owner) and self._owners.lives(claim.owner)
        if alive and claim.turn_id and self._is_over(claim.session_id, claim.turn_id):
            alive = False
        return claim if alive else msgspec.structs.replace(claim, alive=False)

    def announce(self, claim: Claim) -> None:
        """Store a hint for a claim about to be written; raises ``StorageUnavailable``."""
        self._hints.note(ClaimHint.at(claim))

    def forget(self, session_id: str, turn_id: str) -> None:
        """Remove the hint for a claim that was released or never written."""
        self._hints.clear(session_id, turn_id)

    def doubt(self, session_id: str, turn_id: str) -> None:
        """Remember a claim whose write had an unknown outcome; its hint stays."""
        self._doubts.add((session_id, turn_id))

    def resolve_doubts(self) -> None:
        """Read the objects of doubtful claims; remove the hints for claims not written."""
        for session_id, turn_id in tuple(self._doubts):
            document = self._objects.peek(session_id)
            found = document.envelope.claim if document is not None else None
            if found is None or found.turn_id != turn_id:
                self.forget(session_id, turn_id)
            self._doubts.discard((session_id, turn_id))

    def all(self) -> Sequence[Claim]:
        """Return the hinted claims; those of dead processes are read from the objects.

        Does not tell that a living process has left a claim; the turn's journal does.
        """
        hints = self._hints.all()
        # Called every second, so it checks each process once, and no turns of living ones.
        lives = {owner: self._owners.lives(owner) for owner in {hint.owner for hint in hints}}
        claims = (self._hinted(hint, alive=lives[hint.owner]) for hint in hints)
        return [claim for claim in claims if claim is not None]

    def _hinted(self, hint: ClaimHint, *, alive: bool) -> Claim | None:
        """Return a hinted claim; remove the hint if a dead process never wrote the claim."""
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
        return self.evaluated(found)
