"""A server that would lose what nodes share is not used, and a person is told why."""

from typing import Any

import pytest

from cluster_app.redis_report import report_on

GOOD = {
    "redis_version": "7.0.15",
    "cluster_enabled": 0,
    "maxmemory": 0,
    "maxmemory_policy": "noeviction",
    "used_memory": 1_000_000,
    "role": "master",
    "connected_slaves": 0,
    "aof_enabled": 1,
    "aof_last_write_status": "ok",
}


def test_a_server_that_keeps_everything_is_good() -> None:
    report = report_on(GOOD)

    assert (report.name, report.faults, report.notes) == ("Redis 7.0.15", (), ())


def test_valkey_is_named_by_its_own_version() -> None:
    valkey = {**GOOD, "redis_version": "7.2.4", "valkey_version": "8.1.0"}

    assert report_on(valkey).name == "Valkey 8.1.0"


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"redis_version": "6.0.16"}, "6.2 is the oldest"),
        ({"redis_version": "5.0"}, "6.2 is the oldest"),
        ({"cluster_enabled": 1}, "Redis Cluster"),
        ({"maxmemory_policy": "allkeys-lru"}, "Set it to noeviction"),
        ({"role": "slave"}, "name the primary"),
    ],
)
def test_a_server_that_would_lose_something_has_a_fault(told: dict[str, Any], said: str) -> None:
    [fault] = report_on({**GOOD, **told}).faults

    assert said in fault


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"aof_enabled": 0}, "appendonly is off"),
        ({"aof_last_write_status": "err"}, "its disk may be full"),
        ({"maxmemory": 1_100_000}, "91% of its memory is used"),
    ],
)
def test_a_server_that_may_lose_something_is_told_of(told: dict[str, Any], said: str) -> None:
    report = report_on({**GOOD, **told})

    assert report.faults == ()
    assert said in report.notes[0]


def test_what_a_server_does_not_tell_is_not_held_against_it() -> None:
    report = report_on({"redis_version": "7.4.0"})

    assert (report.faults, report.notes) == ((), ())
