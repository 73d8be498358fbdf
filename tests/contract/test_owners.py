"""What every store of owners promises, of processes that live, are frozen, and are killed."""

import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cluster_app.redis.connection import RedisConnection
from cluster_app.redis.leases import LeaseOwners
from sessions_app.store.owners import Owners
from tests.contract.owner_process import owners_of

PATIENCE_SECONDS = 60
NEVER = 3600.0
SOON = 0.5


class OtherProcess:
    """Another process, which is asked over a pipe."""

    def __init__(self, *place: str) -> None:
        command = [sys.executable, "-m", "tests.contract.owner_process", *place]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def ask(self, question: str) -> str:
        assert self.process.stdin
        assert self.process.stdout
        print(question, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


class World:
    """A place where owners are, as this process sees it.

    Attributes:
        owners: This process.
        give_up: Lets others take an owner for dead.
    """

    def __init__(self, stack: ExitStack, place: tuple[str, ...], owners: Owners) -> None:
        self._stack = stack
        self._place = place
        self.owners = owners
        self.give_up: Callable[[str], object] = owners.lives

    def start(self) -> OtherProcess:
        other = OtherProcess(*self._place)
        self._stack.callback(other.end)
        return other

    def wait_until_dead(self, owner: str) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while self.owners.lives(owner):
            assert time.monotonic() < end
            time.sleep(0.01)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture(params=["files", "redis"])
def make_world(
    request: pytest.FixtureRequest, stack: ExitStack, tmp_path: Path
) -> Callable[[float], World]:
    """Return what makes a world; its argument is for how long nobody is given up by himself."""

    def files(_: float) -> World:
        place = ("files", str(tmp_path / "workers"))
        world = World(stack, place, owners_of(*place))
        world.give_up = lambda owner: (tmp_path / "workers" / f"{owner}.lock").unlink()
        return world

    def redis(lease_seconds: float) -> World:
        url = request.getfixturevalue("redis_server")
        prefix = f"test:{secrets.token_hex(6)}:"
        connection = RedisConnection(url, prefix=prefix, timeout_seconds=60)
        owners = LeaseOwners(connection, lease_seconds)
        stack.callback(connection.close)
        stack.callback(owners.release)
        world = World(stack, ("redis", url, prefix, str(lease_seconds)), owners)
        world.give_up = owners.condemn
        return world

    return files if request.param == "files" else redis


def test_processes_live_for_each_other_under_ids_that_stay(
    make_world: Callable[[float], World],
) -> None:
    world = make_world(NEVER)
    other = world.start()

    owner = other.ask("mine")

    assert owner == other.ask("mine") != world.owners.mine() == world.owners.mine()
    assert world.owners.lives(owner)
    assert world.owners.lives(world.owners.mine())
    assert (other.ask("holds"), other.ask("lost")) == ("True", "")
    assert not world.owners.lives("")


def test_a_killed_process_is_dead_for_ever(make_world: Callable[[float], World]) -> None:
    world = make_world(SOON)
    other = world.start()
    owner = other.ask("mine")
    assert world.owners.lives(owner)

    other.process.kill()

    world.wait_until_dead(owner)
    successor = world.start()
    assert successor.ask("mine") != owner
    assert not world.owners.lives(owner)


def test_a_process_that_stands_still_for_a_while_lives_on(
    make_world: Callable[[float], World],
) -> None:
    world = make_world(NEVER)
    other = world.start()
    owner = other.ask("mine")

    other.process.send_signal(signal.SIGSTOP)
    assert world.owners.lives(owner)
    other.process.send_signal(signal.SIGCONT)

    assert other.ask("mine") == owner
    assert (other.ask("holds"), other.ask("lost")) == ("True", "")
    assert world.owners.lives(owner)


def test_a_process_that_was_given_up_is_told_and_goes_on_under_another_id(
    make_world: Callable[[float], World],
) -> None:
    world = make_world(SOON)
    other = world.start()
    owner = other.ask("mine")

    world.give_up(owner)

    assert not world.owners.lives(owner)
    end = time.monotonic() + PATIENCE_SECONDS
    while (successor := other.ask("mine")) == owner or other.ask("lost") != owner:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert not world.owners.lives(owner)
    assert world.owners.lives(successor)
