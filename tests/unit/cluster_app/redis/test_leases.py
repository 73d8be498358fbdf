"""Leases on a real server; what is measured by a process is measured by a clock of the test's."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import redis

from cluster_app.redis.connection import RedisConnection
from cluster_app.redis.leases import (
    MOST_SILENT_SECONDS,
    LeaseOwners,
)
from sessions_app.errors import StorageUnavailable
from tests.redis_server import running_redis, wait_for_redis

LEASE = 600.0
"""None ends while a test runs, unless the test ends it."""


class Clock:
    """Stands still but for what a test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Process:
    """What a process knows of leases, with a clock of its own; nothing renews its lease."""

    def __init__(self, connection: RedisConnection) -> None:
        self.connection = connection
        self.clock = Clock()
        self.owners = LeaseOwners(connection, LEASE, clock=self.clock, in_background=False)
        self.lost: list[str] = []
        self.owners.when_condemned(self.lost.append)
        self.client: redis.Redis = connection.client

    def lease(self) -> str:
        return self.connection.root_key("w", self.owners.mine())

    def settle(self) -> None:
        """Let it have had its lease for the length of one."""
        assert self.client.set(self.lease(), "1", keepttl=True, xx=True)

    def vanish(self) -> str:
        """Let its lease run out; return its id."""
        self.client.delete(self.lease())
        return self.owners.mine()


@pytest.fixture
def new_process(redis_connection: RedisConnection) -> Callable[[], Process]:
    def make() -> Process:
        process = Process(redis_connection)
        process.settle()
        return process

    return make


def test_a_process_lives_for_others_from_its_first_id_on(
    new_process: Callable[[], Process],
) -> None:
    one, other = new_process(), new_process()

    assert one.owners.mine() == one.owners.mine()
    assert one.owners.mine() != other.owners.mine()
    assert other.owners.lives(one.owners.mine())
    assert one.owners.holds()
    assert 0 < one.client.pttl(one.lease()) <= LEASE * 1000


def test_whoever_finds_no_lease_condemns_for_ever(new_process: Callable[[], Process]) -> None:
    one, other, third = new_process(), new_process(), new_process()
    owner = one.vanish()

    assert not other.owners.lives(owner)
    one.client.set(one.connection.root_key("w", owner), "1")  # as if it could beat again

    assert not other.owners.lives(owner)
    assert not third.owners.lives(owner)


def test_a_process_that_meets_its_tombstone_is_told_and_takes_another_id(
    new_process: Callable[[], Process],
) -> None:
    one, other = new_process(), new_process()
    first = one.vanish()
    assert not other.owners.lives(first)

    one.owners.beat()

    assert (one.lost, one.owners.holds()) == ([first], False)
    second = one.owners.mine()
    assert second != first
    assert one.owners.holds()
    assert other.owners.lives(second)
    assert not one.owners.lives(first)


def test_a_beat_in_time_keeps_a_lease_and_one_that_comes_late_but_first_gets_it_back(
    new_process: Callable[[], Process],
) -> None:
    one, other = new_process(), new_process()
    owner = one.owners.mine()
    one.client.pexpire(one.lease(), 1000)
    one.owners.beat()
    assert one.client.pttl(one.lease()) > 1000

    one.vanish()
    one.owners.beat()

    assert other.owners.lives(owner)
    assert one.lost == []


def test_a_process_holds_its_lease_for_as_long_as_it_can_not_have_run_out(
    new_process: Callable[[], Process],
) -> None:
    one = new_process()
    one.clock.now += LEASE - 1
    assert one.owners.holds()

    one.clock.now += 1
    assert not one.owners.holds()

    one.owners.beat()
    assert one.owners.holds()


def test_a_process_that_was_silent_asks_before_it_claims_anything(
    new_process: Callable[[], Process],
) -> None:
    one, other = new_process(), new_process()
    owner = one.vanish()
    assert not other.owners.lives(owner)
    one.clock.now += LEASE

    assert one.owners.mine() != owner
    assert one.lost == [owner]


def test_a_process_that_was_silent_for_longer_than_tombstones_stand_gives_itself_up(
    new_process: Callable[[], Process],
) -> None:
    one = new_process()
    owner = one.vanish()
    one.clock.now += MOST_SILENT_SECONDS + 1

    one.owners.beat()

    assert one.lost == [owner]


def test_who_has_no_lease_yet_or_has_it_for_less_than_one_condemns_nobody(
    redis_connection: RedisConnection, new_process: Callable[[], Process]
) -> None:
    owner, newcomer = new_process().vanish(), Process(redis_connection)

    assert newcomer.owners.lives(owner)  # it takes an id, to know it one day
    assert newcomer.owners.lives(owner)

    newcomer.settle()
    assert not newcomer.owners.lives(owner)


def test_a_redis_that_forgot_everything_condemns_nobody(
    new_process: Callable[[], Process],
) -> None:
    processes = [new_process() for _ in range(3)]
    first = processes[0]
    first.client.delete(*(process.lease() for process in processes))

    for asker in processes:
        asker.owners.beat()  # its own lease is there again; those of others not yet
        for asked in processes:
            assert asker.owners.lives(asked.owners.mine())

    assert [process.lost for process in processes] == [[], [], []]


def test_who_just_lost_its_own_lease_condemns_nobody(new_process: Callable[[], Process]) -> None:
    one, other = new_process(), new_process()
    one.vanish()
    owner = other.vanish()

    assert one.owners.lives(owner)


def test_after_redis_was_away_nobody_is_condemned_for_a_lease(
    new_process: Callable[[], Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = new_process(), new_process()
    owner = other.vanish()

    with monkeypatch.context() as broken:
        broken.setattr(redis.Redis, "evalsha", _refuse)
        with pytest.raises(StorageUnavailable):
            one.owners.beat()
        assert one.owners.lives(owner)  # nobody knows
    assert one.owners.lives(owner)  # it is back, and nobody else may be yet
    one.owners.beat()
    assert one.owners.lives(owner)

    one.clock.now += LEASE
    one.owners.beat()
    assert not one.owners.lives(owner)


def _refuse(*_: Any, **__: Any) -> None:
    raise redis.ConnectionError("refused")


def test_another_run_of_redis_condemns_nobody_for_a_lease() -> None:
    options = ("--appendonly", "yes", "--appendfsync", "always", "--enable-debug-command", "yes")
    with running_redis(*options) as url:
        connection = RedisConnection(url, timeout_seconds=60)
        one, other = Process(connection), Process(connection)
        one.settle()
        owner = other.vanish()
        run = connection.client.info("server")["run_id"]
        with suppress(redis.ConnectionError):
            connection.client.execute_command("DEBUG", "RESTART")
        wait_for_redis(url)
        assert connection.client.info("server")["run_id"] != run
        assert connection.client.exists(one.lease())  # it was kept

        assert one.owners.lives(owner)
        one.owners.beat()
        assert one.owners.lives(owner)

        one.clock.now += LEASE
        one.owners.beat()
        assert not one.owners.lives(owner)
        connection.close()


def test_what_waited_in_a_redis_that_stood_still_condemns_nobody() -> None:
    with running_redis() as url:
        hasty = RedisConnection(url, timeout_seconds=2)
        connection = RedisConnection(url, timeout_seconds=60)
        one = LeaseOwners(hasty, 0.2, in_background=False)
        other = LeaseOwners(connection, 0.2, in_background=False)
        owners = [one.mine(), other.mine()]
        assert one.lives(owners[1])  # the server knows the script from now on
        for owner in owners:  # both have lived for long
            connection.client.set(connection.root_key("w", owner), "1", px=200)
        process = connection.client.info("server")["process_id"]
        pool: Any = hasty.client.connection_pool
        for opened in [pool.get_connection() for _ in range(2)]:
            pool.release(opened)  # so that both questions are on their way at once
        asking = [
            threading.Thread(target=_ignore_away, args=(one.beat,)),
            threading.Thread(target=one.lives, args=(owners[1],)),
        ]
        os.kill(process, signal.SIGSTOP)
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()  # they were given up waiting for, longer than a lease
        os.kill(process, signal.SIGCONT)
        wait_for_redis(url)

        other.beat()

        assert other.mine() == owners[1]
        assert not connection.client.exists(connection.root_key("dead", owners[1]))
        hasty.close()
        connection.close()


def _ignore_away(call: Callable[[], None]) -> None:
    with suppress(StorageUnavailable):
        call()


def test_a_lease_is_renewed_in_a_redis_that_is_full() -> None:
    with running_redis("--maxmemory-policy", "noeviction") as url:
        connection = RedisConnection(url, timeout_seconds=60)
        one = Process(connection)
        one.settle()
        connection.client.pexpire(one.lease(), 1000)
        connection.client.config_set("maxmemory", "1")
        with pytest.raises(redis.OutOfMemoryError):
            connection.client.set("x", "y")

        one.owners.beat()

        assert connection.client.pttl(one.lease()) > 1000
        connection.close()


def test_a_parent_condemns_a_child_by_its_name_at_once(redis_connection: RedisConnection) -> None:
    parent, other = Process(redis_connection), Process(redis_connection)
    child = LeaseOwners(redis_connection, LEASE, name="child", in_background=False)
    other.owners.condemn(child.mine())
    child.beat()
    second = child.mine()
    assert other.owners.lives(second)

    parent.owners.condemn_process("child")

    assert not other.owners.lives(second)


def test_a_process_that_stops_is_dead_at_once_and_may_begin_again(
    redis_connection: RedisConnection,
) -> None:
    others = _beating()
    one = LeaseOwners(redis_connection, LEASE, name="one")
    other = Process(redis_connection)
    first = one.mine()
    beating = _beating() - others
    assert beating

    one.release()

    assert not other.owners.lives(first)
    assert not any(thread.is_alive() for thread in beating)
    assert one.mine() != first
    one.release()


def test_a_thread_renews_the_lease_and_tells_of_a_loss(redis_connection: RedisConnection) -> None:
    one, other = LeaseOwners(redis_connection, 0.3), Process(redis_connection)
    lost: list[str] = []
    told = threading.Event()
    one.when_condemned(lambda owner: (lost.append(owner), told.set())[1])
    owner = one.mine()

    other.owners.condemn(owner)

    assert told.wait(30)
    assert lost == [owner]
    one.release()


def test_a_defect_in_one_who_is_told_keeps_nobody_else_from_being_told(
    new_process: Callable[[], Process],
) -> None:
    one, other = new_process(), new_process()
    told: list[str] = []

    def fail(_: str) -> None:
        raise RuntimeError

    one.owners.when_condemned(fail)
    one.owners.when_condemned(told.append)
    owner = one.owners.mine()
    other.owners.condemn(owner)
    one.owners.beat()

    assert told == [owner]


def test_a_fork_is_another_process(redis_connection: RedisConnection) -> None:
    owners = LeaseOwners(redis_connection, LEASE, name="parent", in_background=False)
    mine = owners.mine()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, owners.mine().encode())
        os._exit(0)
    os.waitpid(child, 0)

    theirs = os.read(reading, 100).decode()
    os.close(reading)
    os.close(writing)
    assert theirs
    assert theirs.partition("-")[0] != mine.partition("-")[0]
    assert owners.mine() == mine


def test_without_redis_no_id_is_had(redis_connection: RedisConnection) -> None:
    one = Process(RedisConnection("unix:///nowhere/socket"))
    with pytest.raises(StorageUnavailable):
        one.owners.mine()


@pytest.fixture(autouse=True)
def _no_lease_is_renewed_on() -> Iterator[None]:
    before = _beating()
    yield
    assert _beating() <= before


def _beating() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "lease"}
