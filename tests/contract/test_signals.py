"""The contract of signals, whatever they are kept in."""

import threading
from pathlib import Path

import pytest

from chat.storage.files.signals import FileSignals
from chat.storage.files.watcher import PathWatcher
from chat.storage.signals import Signals
from cluster_app.redis.hub import Hub
from cluster_app.redis.signals import RedisSignals
from tests.contract.memory_repository import MemoryOwners
from tests.contract.memory_storage import MemorySignals

TURN, OTHER_TURN = "0199f3a2b4c50000abcd", "0199f3a2b4c60000abcd"


@pytest.fixture(params=["files", "memory", "redis"])
def signals(request: pytest.FixtureRequest, tmp_path: Path) -> Signals:
    if request.param == "redis":
        connection, owners = request.getfixturevalue("redis_connection"), MemoryOwners()
        for turn_id in (TURN, OTHER_TURN):
            connection.client.hset(connection.root_key("m", turn_id), "worker", owners.mine())
        return RedisSignals(connection, owners=owners, hub=Hub(connection))
    if request.param == "memory":
        return MemorySignals()
    return FileSignals(tmp_path / "signals", PathWatcher(interval_seconds=0.001))


def test_a_signal_waits_until_its_turn_takes_it(signals: Signals) -> None:
    signals.send(TURN, "cancel")
    assert signals.is_waiting(TURN, "cancel")
    assert not signals.is_waiting(TURN, "detach")
    assert signals.take({OTHER_TURN}) == []
    assert signals.take({TURN, OTHER_TURN}) == [(TURN, "cancel")]
    assert not signals.is_waiting(TURN, "cancel")
    assert signals.take({TURN}) == []


def test_sent_twice_is_sent_once_and_kinds_are_kept_apart(signals: Signals) -> None:
    for kind in ("cancel", "cancel", "confirm"):
        signals.send(TURN, kind)
    assert sorted(signals.take({TURN})) == [(TURN, "cancel"), (TURN, "confirm")]


def test_a_signal_can_be_withdrawn_also_when_it_was_taken(signals: Signals) -> None:
    signals.send(TURN, "cancel")
    signals.withdraw(TURN, "cancel")
    signals.withdraw(TURN, "cancel")
    assert signals.take({TURN}) == []


def test_a_watcher_hears_of_a_signal(signals: Signals) -> None:
    changed = threading.Event()
    stop = signals.watch(changed.set)
    changed.wait(10)  # what is there already may have come before the watching
    changed.clear()
    signals.send(TURN, "cancel")
    assert changed.wait(10)
    stop()


@pytest.mark.parametrize("signals", ["files", "memory"], indirect=True)
def test_old_signals_are_swept(signals: Signals) -> None:
    signals.send(TURN, "cancel")
    signals.sweep(3600)
    assert signals.is_waiting(TURN, "cancel")
    signals.sweep(-1)
    assert not signals.is_waiting(TURN, "cancel")


def test_where_there_never_was_a_signal_there_is_none(signals: Signals) -> None:
    signals.sweep(-1)
    assert signals.take({TURN}) == []
    assert not signals.is_waiting(TURN, "cancel")
