"""The contract of the log of changes, whatever it is kept in."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chat.storage.change_log import ChangeLog
from chat.storage.files.change_log import FileChangeLog
from chat.storage.files.watcher import PathWatcher
from cluster_app.redis.change_log import RedisChangeLog
from cluster_app.redis.hub import Hub

SESSION, OTHER_SESSION = "a1b2c3d4e5", "0123456789"
TURN = "0199f3a2b4c50000abcd"


@pytest.fixture(params=["files", "redis"])
def logs(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[ChangeLog, ChangeLog]:
    """Return the same log as two processes have it."""
    if request.param == "redis":
        connection = request.getfixturevalue("redis_connection")
        first, second = (RedisChangeLog(connection, Hub(connection)) for _ in range(2))
        return first, second
    watchers = [PathWatcher(interval_seconds=0.001) for _ in range(2)]
    first, second = (FileChangeLog(tmp_path / "changes", watcher) for watcher in watchers)
    return first, second


def test_what_happens_while_nobody_listens_is_not_kept(logs: tuple[ChangeLog, ChangeLog]) -> None:
    log, other = logs
    log.note("created", SESSION)
    start = other.open()
    assert other.read(start, 10) == []


def test_changes_are_read_in_one_order_by_all_and_from_any_place(
    logs: tuple[ChangeLog, ChangeLog],
) -> None:
    log, other = logs
    start = log.open()
    log.note("created", SESSION)
    other.note("turn_started", SESSION, TURN)
    log.note("deleted", OTHER_SESSION)
    changes = log.read(start, 10)
    assert changes is not None
    assert changes == other.read(start, 10)
    assert [(one.kind, one.session_id, one.turn_id) for one in changes] == [
        ("created", SESSION, ""),
        ("turn_started", SESSION, TURN),
        ("deleted", OTHER_SESSION, ""),
    ]
    assert log.read(start, 2) == changes[:2]
    assert log.read(changes[1].id, 10) == changes[2:]
    assert log.read(changes[2].id, 10) == []
    assert log.open() == other.open() == changes[2].id


@pytest.mark.parametrize(
    "unknown", ["0123456789abcdef-34", "1-1", "99-999999999999999999999", "0-0"]
)
def test_a_place_that_is_not_known_any_more_is_told(
    logs: tuple[ChangeLog, ChangeLog], unknown: str
) -> None:
    log, _ = logs
    assert log.read(unknown, 10) is None
    log.open()
    log.note("created", SESSION)
    assert log.read(unknown, 10) is None


def test_whoever_follows_hears_of_changes_here_and_elsewhere(
    logs: tuple[ChangeLog, ChangeLog],
) -> None:
    log, other = logs
    position = log.open()
    changed = threading.Event()
    stop = log.follow(changed.set)
    for noting in (other, log, other):
        noting.note("changed", SESSION)
        found = log.read(position, 10)
        while not found:
            assert changed.wait(10)
            changed.clear()
            found = log.read(position, 10)
        position = found[-1].id
    stop()
    stop()


def test_of_many_who_note_at_once_nothing_is_lost(logs: tuple[ChangeLog, ChangeLog]) -> None:
    start = logs[0].open()
    with ThreadPoolExecutor(8) as pool:
        for n in range(200):
            pool.submit(logs[n % 2].note, "changed", f"{n:010x}")
    changes = logs[0].read(start, 1000)
    assert changes is not None
    assert {change.session_id for change in changes} == {f"{n:010x}" for n in range(200)}
