"""Chores are done again and again, whatever becomes of the others."""

import asyncio
import logging
from pathlib import Path

from mochi_project.background.housekeeping import Chores, Housekeeper
from mochi_project.background.rounds import OwnerFolders
from tests.services import OneOwner, services_of


class Chore:
    """Counts how often it was done, and fails while it is told to."""

    def __init__(self, *, fails=False):
        self.fails = fails
        self.times = 0

    def __call__(self):
        fails = self.fails
        self.times += 1
        if fails:
            raise OSError("no")

    async def done(self, times):
        while self.times < times:
            await asyncio.sleep(0.001)


def keeper(regular, urgent=None):
    """Return what does the chores of an owner who is loaded."""
    services = services_of({Chores: Chores(regular, urgent or {})})
    services.get(Chores)
    return Housekeeper(OneOwner(services), Chores({}, {}), OwnerFolders(Path("/nonexistent")))


async def keep(housekeeper, *waits, **how):
    keeping = asyncio.create_task(housekeeper.run(**how))
    async with asyncio.timeout(20):
        for wait in waits:
            await wait
    keeping.cancel()
    await asyncio.wait({keeping})


async def test_a_chore_that_fails_does_not_keep_the_others(caplog):
    failing, other = Chore(fails=True), Chore()
    with caplog.at_level(logging.ERROR):
        await keep(
            keeper({"failing": failing, "other": other}),
            other.done(3),
            interval_seconds=0,
        )
    assert len([record for record in caplog.records if record.chore == "failing"]) >= 3
    assert all("no" in record.getMessage() and not record.exc_info for record in caplog.records)


async def test_what_is_urgent_does_not_wait_for_the_rest(caplog):
    rare, urgent = Chore(), Chore(fails=True)
    with caplog.at_level(logging.ERROR):
        await keep(
            keeper({"rare": rare}, {"urgent": urgent}),
            urgent.done(5),
            interval_seconds=3600,
            urgent_seconds=0,
        )
        assert rare.times == 1
        assert [record.chore for record in caplog.records] == ["urgent"]


async def test_what_fails_again_after_it_had_worked_is_said_again(caplog):
    urgent = Chore(fails=True)
    housekeeper = keeper({}, {"urgent": urgent})

    async def recovers_and_fails():
        await urgent.done(1)
        urgent.fails = False
        await urgent.done(urgent.times + 2)
        urgent.fails = True
        await urgent.done(urgent.times + 3)

    with caplog.at_level(logging.ERROR):
        await keep(housekeeper, recovers_and_fails(), urgent_seconds=0)
    assert len(caplog.records) == 2


async def test_a_chore_that_was_added_is_done():
    added, housekeeper = Chore(), keeper({})
    housekeeper.add("added", added)
    await keep(housekeeper, added.done(2), interval_seconds=0)
