"""Chores are done again and again, whatever becomes of the others, of every owner."""

import asyncio
import logging
from contextvars import Context
from pathlib import Path

import pytest

from mochi_project.app import ServicePool
from mochi_project.background.housekeeping import Chores, Housekeeper
from mochi_project.background.rounds import OwnerFolders
from mochi_project.principal import PRINCIPAL, principal
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


class Owners(ServicePool):
    """Has services of each owner whose only chores are to write down for whom they are done."""

    def __init__(self):
        self.done, self.kept, self.broken = [], {"default"}, set()
        self._services = {}

    def of(self, owner):
        if owner in self.broken:
            raise OSError("no")
        if owner not in self._services:
            chores = Chores({"note": lambda: self.done.append(principal().owner)}, {})
            self._services[owner] = services_of({Chores: chores})
        return self._services[owner]

    def loaded(self):
        return {owner: self.of(owner) for owner in ("default", *self._services)}

    def release(self, owner):
        if owner in self.kept:
            return False
        self._services.pop(owner, None)
        return True

    async def did(self, *owners):
        while not set(owners) <= set(self.done):
            await asyncio.sleep(0.001)


def unfinished(tmp_path, *owners):
    for owner in owners:
        (tmp_path / owner / ".mochi" / "turns" / "0123456789").mkdir(parents=True)
    return OwnerFolders(tmp_path)


@pytest.mark.allow_blocking
async def test_at_a_start_the_chores_of_owners_are_done_who_have_something_unfinished(tmp_path):
    pool, folders = Owners(), unfinished(tmp_path, "anna")
    (tmp_path / "idle").mkdir()
    pool.kept.add("anna")  # whose turn goes on

    await keep(Housekeeper(pool, Chores({}, {}), folders), pool.did("default", "anna"))

    assert set(pool.done) == {"default", "anna"}
    assert set(pool.loaded()) == {"default", "anna"}


@pytest.mark.allow_blocking
async def test_later_all_others_are_visited_and_not_kept(tmp_path):
    pool = Owners()
    for owner in ("anna", "bob"):
        (tmp_path / owner).mkdir()
    housekeeper = Housekeeper(pool, Chores({}, {}), OwnerFolders(tmp_path))

    await keep(housekeeper, pool.did("anna", "bob"), interval_seconds=0)

    assert set(pool.loaded()) <= {"default", "anna", "bob"}
    assert len([owner for owner in pool.done if owner == "anna"]) == 1
    assert pool.release("bob") or "bob" not in pool.loaded()


@pytest.mark.allow_blocking
async def test_an_owner_who_can_not_be_loaded_keeps_no_other_from_being_visited(tmp_path, caplog):
    pool, folders = Owners(), unfinished(tmp_path, "anna", "bob")
    pool.broken.add("anna")

    await keep(Housekeeper(pool, Chores({}, {}), folders), pool.did("bob"))

    assert {record.owner for record in caplog.records} <= {"anna"}
    assert "anna" not in pool.done


async def test_what_concerns_the_whole_process_is_done_for_nobody():
    pool, asked = Owners(), []

    def ask():
        asked.append(PRINCIPAL.get(None))

    chores = Chores({"regular": ask}, {"urgent": ask})
    housekeeper = Housekeeper(pool, chores, OwnerFolders(Path("/nonexistent")))
    context = Context()
    await asyncio.create_task(keep(housekeeper, pool.did("default")), context=context)
    assert set(asked) <= {None}


async def test_owners_who_can_not_be_found_just_now_keep_no_chore_from_being_done(caplog):
    class Unreachable(OwnerFolders):
        def to_visit(self, purpose):
            raise OSError(f"no {purpose}")

        def unfinished(self):
            raise OSError("no folder")

    chore = Chore()
    owners = Unreachable(Path("/nonexistent"))
    pool = OneOwner(services_of({Chores: Chores({}, {})}))
    housekeeper = Housekeeper(pool, Chores({"chore": chore}, {}), owners)
    with caplog.at_level(logging.ERROR):
        await keep(housekeeper, chore.done(3), interval_seconds=0)
    assert {record.chore for record in caplog.records} == {"find owners"}
