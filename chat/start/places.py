"""Counts the turns of this process, and refuses those beyond its limits (docs/decisions/0024)."""

from collections.abc import Callable

from chat.errors import TooManyTurns
from chat.start.client_turns import ClientTurns


class TurnPlaces:
    """The places for turns in this process; several registries may share them.

    Args:
        active: How many turns may run at once.
        per_client: How many of them one client may have running; 0 for any number.
    """

    def __init__(self, active: int, per_client: int = 0) -> None:
        self._active = active
        self._taken = 0
        self._clients = ClientTurns(per_client)

    def take(self, client: str | None) -> Callable[[], None]:
        """Take a place for a turn of a client; return what gives it back.

        Raises:
            TooManyTurns: As many turns run as may, or as many of this client.
        """
        if self._taken >= self._active:
            raise TooManyTurns(self._active)
        leave = self._clients.enter(client)
        self._taken += 1

        def give_back() -> None:
            self._taken -= 1
            leave()

        return give_back
