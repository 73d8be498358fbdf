"""Signals in Redis: each finds the process that runs its turn, under whichever name it has."""

import threading

import pytest

from cluster_app.redis import signals as signals_module
from cluster_app.redis.hub import Hub
from cluster_app.redis.signals import LIFETIME_SECONDS, RedisSignals
from sessions_app.errors import StorageUnavailable
from tests.contract.memory_repository import MemoryOwners

TURN, OTHER_TURN = "0199f3a2b4c50000abcd", "0199f3a2b4c60000abcd"


@pytest.fixture
def runs(connection):
    """Return a function that has a process run a turn."""

    def run(owners, turn_id=TURN):
        connection.inner.client.hset(connection.root_key("m", turn_id), "worker", owners.mine())

    return run


@pytest.fixture
def process(connection):
    """Return a function that starts a process of a name: (its signals, itself)."""

    def start(name):
        owners = MemoryOwners(name)
        return RedisSignals(connection, owners=owners, hub=Hub(connection.inner)), owners

    return start


def test_a_signal_reaches_the_process_that_runs_the_turn_and_no_other(process, runs):
    (sender, _), (receiver, owners) = process("sender"), process("receiver")
    runs(owners)
    sender.send(TURN, "cancel")
    assert sender.take({TURN}) == []
    assert sender.is_waiting(TURN, "cancel")
    assert receiver.take({TURN}) == [(TURN, "cancel")]
    assert not sender.is_waiting(TURN, "cancel")


def test_a_turn_that_nobody_runs_any_more_gets_no_signal(process, connection):
    signals, _ = process("any")
    signals.send(TURN, "cancel")
    signals.withdraw(TURN, "cancel")
    assert not signals.is_waiting(TURN, "cancel")
    assert connection.inner.client.keys(connection.root_key("sig", "*")) == []


def test_a_turn_that_has_ended_gets_no_signal(process, runs, connection):
    signals, owners = process("any")
    runs(owners)
    connection.inner.client.hset(connection.root_key("m", TURN), "ended", "1")
    signals.send(TURN, "cancel")
    assert not signals.is_waiting(TURN, "cancel")


def test_a_process_hears_signals_under_its_new_name_too(process, runs):
    (sender, _), (receiver, owners) = process("sender"), process("receiver")
    heard = threading.Event()
    stop = receiver.watch(heard.set)
    assert heard.wait(10)
    owners.condemn()
    heard.clear()
    runs(owners, OTHER_TURN)
    sender.send(OTHER_TURN, "confirm")
    while not (taken := receiver.take({OTHER_TURN})):
        assert heard.wait(10)
        heard.clear()
    assert taken == [(OTHER_TURN, "confirm")]
    stop()


def test_a_process_without_a_name_hears_signals_as_soon_as_it_has_one(process, runs, monkeypatch):
    monkeypatch.setattr(signals_module, "RETRY_SECONDS", 0.001)
    (sender, _), (receiver, owners) = process("sender"), process("receiver")
    has_name, heard, asked = threading.Event(), threading.Event(), threading.Event()
    mine = owners.mine

    def named():
        asked.set()
        if not has_name.is_set():
            raise StorageUnavailable("away")
        return mine()

    monkeypatch.setattr(owners, "mine", named)
    stop = receiver.watch(heard.set)
    assert asked.wait(10)
    assert not heard.is_set()
    has_name.set()
    assert heard.wait(10)
    runs(owners)
    sender.send(TURN, "cancel")
    assert receiver.take({TURN}) == [(TURN, "cancel")]
    stop()


def test_signals_that_are_not_understood_here_are_left_alone(process, runs, connection):
    signals, owners = process("any")
    runs(owners)
    stream = connection.root_key("sig", owners.mine())
    for fields in (
        {"t": TURN, "k": "dance", "v": "1"},
        {"t": TURN, "k": "cancel", "v": "2"},
        {"colour": "blue"},
    ):
        connection.inner.client.xadd(stream, fields)
    assert signals.take({TURN}) == []
    signals.send(TURN, "cancel")
    assert signals.take({TURN}) == [(TURN, "cancel")]
    assert connection.inner.client.xlen(stream) == 3


def test_what_nobody_takes_is_gone_in_time(process, runs, connection):
    signals, owners = process("any")
    runs(owners)
    runs(owners, OTHER_TURN)
    stream = connection.root_key("sig", owners.mine())
    connection.inner.client.xadd(stream, {"t": TURN, "k": "cancel", "v": "1"}, id="1-1")
    signals.send(OTHER_TURN, "cancel")
    assert not signals.is_waiting(TURN, "cancel")
    assert signals.is_waiting(OTHER_TURN, "cancel")
    assert 0 < connection.inner.client.ttl(stream) <= LIFETIME_SECONDS


def test_a_signal_that_can_not_be_withdrawn_keeps_nobody(process, connection):
    signals, _ = process("any")
    connection.away = True
    signals.withdraw(TURN, "cancel")
    with pytest.raises(StorageUnavailable):
        signals.send(TURN, "cancel")
