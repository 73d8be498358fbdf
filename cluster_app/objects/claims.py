"""Checks the claims stored in objects, and finds them in the index (docs/decisions/0146)."""

from collections.abc import Callable, Sequence

import msgspec

from cluster_app.objects.session_index import SessionIndex
from cluster_app.objects.session_objects import SessionObjects
from sessions_app.store.owners import Owners
from sessions_app.store.repository import Claim


class ObjectClaims:
    """Evaluates the claims on the sessions of one store.

    Args:
        objects: The sessions, each with its claim.
        owners: Tells which processes are alive.
        index: The session index, which has the claims, too.
        is_over: Returns whether a turn (session id, turn id) has ended although its claim remains.
    """

    def __init__(
        self,
        objects: SessionObjects,
        *,
        owners: Owners,
        index: SessionIndex,
        is_over: Callable[[str, str], bool],
    ) -> None:
        self._objects = objects
        self._owners = owners
        self._index = index
        self._is_over = is_over

    def evaluated(self, claim: Claim | None) -> Claim | None:
        """Return the claim; ``alive`` is false if its process is dead or its turn has ended."""
        if claim is None:
            return None
        alive = bool(claim.owner) and self._owners.lives(claim.owner)
        if alive and claim.turn_id and self._is_over(claim.session_id, claim.turn_id):
            alive = False
        return claim if alive else msgspec.structs.replace(claim, alive=False)

    def all(self) -> Sequence[Claim]:
        """Return the claims in the index; those of dead processes are read from the objects.

        Does not tell that a living process has left a claim; the turn's journal does.
        """
        claims = self._index.claims()
        # Called every second, so it checks each process once, and no turns of living ones.
        lives = {owner: self._owners.lives(owner) for owner in {claim.owner for claim in claims}}
        read = (claim if lives[claim.owner] else self._read(claim.session_id) for claim in claims)
        return [claim for claim in read if claim is not None]

    def _read(self, session_id: str) -> Claim | None:
        document = self._objects.peek(session_id)
        return None if document is None else self.evaluated(document.envelope.claim)
