"""Hints at claims in memory."""

from collections.abc import Sequence

from cluster_app.objects.claim_hints import ClaimHint


class MemoryClaimHints:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self._hints: dict[tuple[str, str], ClaimHint] = {}

    def note(self, hint: ClaimHint) -> None:
        self._hints[hint.session_id, hint.turn_id] = hint

    def clear(self, session_id: str, turn_id: str) -> None:
        self._hints.pop((session_id, turn_id), None)

    def all(self) -> Sequence[ClaimHint]:
        return list(self._hints.values())
