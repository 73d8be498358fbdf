"""A turn of a dead process goes on for its own owner, whoever gives it a place."""

import asyncio
from types import SimpleNamespace

from chat.resumer import TurnResumer
from chat.start.turn_limits import TurnPlaces
from mochi_project.principal import acting_for, principal


class Takeover:
    """Says for which owner each turn was taken over, and goes on with none."""

    def __init__(self):
        self.recovery = SimpleNamespace(when_to_continue=lambda found: None)
        self.owners = asyncio.Queue()
        self.loop = asyncio.get_running_loop()

    def look(self, session_id):
        return SimpleNamespace(barren_resumes=0), False

    def take(self, session_id):
        self.loop.call_soon_threadsafe(self.owners.put_nowait, principal().owner)


async def test_a_place_that_another_owner_gives_back_changes_no_owner():
    places, takeover = TurnPlaces(1), Takeover()
    resumer = TurnResumer(takeover, places, None, asyncio.to_thread)
    resumer.open(asyncio.get_running_loop())
    leave = places.take(None)
    with acting_for("anna"):
        resumer.found("a1b2c3d4e5")
    async with asyncio.timeout(30):
        while resumer.tasks or not resumer.is_busy:
            await asyncio.sleep(0.01)

        with acting_for("ben"):
            leave()

        assert await takeover.owners.get() == "anna"
