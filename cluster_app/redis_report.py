"""Checks whether a Redis or Valkey server is suitable for the nodes' shared data."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

OLDEST = (6, 2)
FULL_SHARE = 0.8
"""The share of its memory from which on a server is nearly full."""


class RedisReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of checking a server.

    Attributes:
        name: The product and its version.
        faults: Reasons not to use it, one sentence each.
        notes: Warnings, one sentence each.
    """

    name: str
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def report_on(info: Mapping[str, Any]) -> RedisReport:
    """Check the reply of a server's ``INFO``; missing values cause no faults."""

    def all_of(*checks: Callable[[Mapping[str, Any]], Iterator[str]]) -> tuple[str, ...]:
        return tuple(sentence for check in checks for sentence in check(info))

    product = "Valkey" if "valkey_version" in info else "Redis"
    version = info.get("valkey_version") or info.get("redis_version", "?")
    return RedisReport(
        name=f"{product} {version}",
        faults=all_of(_too_old, _of_a_cluster, _evicting, _replica),
        notes=all_of(_forgetting, _nearly_full),
    )


def _too_old(info: Mapping[str, Any]) -> Iterator[str]:
    version = str(info.get("redis_version", ""))
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if len(numbers) == 2 and numbers < OLDEST:
        yield f"it is version {version}: 6.2 is the oldest that has what is needed"


def _of_a_cluster(info: Mapping[str, Any]) -> Iterator[str]:
    if info.get("cluster_enabled"):
        yield "it is part of a Redis Cluster: use one primary, with replicas and Sentinels"


def _evicting(info: Mapping[str, Any]) -> Iterator[str]:
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        yield (
            f"its maxmemory-policy is {policy}: when it is full it would evict running turns "
            "and leases. Set it to noeviction"
        )


def _replica(info: Mapping[str, Any]) -> Iterator[str]:
    if info.get("role") in {"slave", "replica"}:
        yield "it is a replica, which takes no writes: name the primary, or its Sentinels"


def _forgetting(info: Mapping[str, Any]) -> Iterator[str]:
    if not info.get("aof_enabled", 1):
        yield (
            "appendonly is off: when it restarts, the text of running turns that is not saved yet "
            "is lost, and approvals are asked for again"
        )
    elif info.get("aof_last_write_status", "ok") != "ok":
        yield "its last write to its file failed: its disk may be full"


def _nearly_full(info: Mapping[str, Any]) -> Iterator[str]:
    limit = int(info.get("maxmemory", 0))
    used = int(info.get("used_memory", 0))
    if limit and used > limit * FULL_SHARE:
        yield (
            f"{used / limit:.0%} of its memory is used; full, it takes no new turns. Give it more "
            "or lower MOCHI_TURN_RETENTION_SECONDS"
        )
