"""The keys as they are now, and who is told when one ends."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mochi_project.keys.key import Key, new_key
from mochi_project.keys.ring import KeyRing
from mochi_project.keys.store import KeyStore
from sessions_app.store.file_records import FileRecords

pytestmark = pytest.mark.allow_blocking  # what tests write themselves

NOW = datetime(2026, 11, 28, 18, 0, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> KeyStore:
    return KeyStore(FileRecords(tmp_path))


class Clock:
    now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ring(store: KeyStore, clock: Clock) -> KeyRing:
    return KeyRing(store, now=clock)


def added(store: KeyStore, expires_at: datetime | None = None) -> tuple[Key, bytes]:
    key, token = new_key(owner="anna", expires_at=expires_at)
    return store.add(key), token.encode()


async def test_a_key_is_found_by_its_token_alone(ring: KeyRing, store: KeyStore) -> None:
    key, token = added(store)
    _, other = added(store)
    await ring.look()

    assert ring.key_of(token) == key
    wrong = [
        token[:-1] + (b"A" if token[-1:] != b"A" else b"B"),
        token[:16] + other[16:],
        b"mochi_k00000000_" + token[16:],
        token + b"A",
        token.upper(),
        b"\xff",
        key.hash.encode(),
        b"",
    ]
    assert [ring.key_of(each) for each in wrong] == [None] * len(wrong)


async def test_the_first_key_closes_the_door_for_good(
    ring: KeyRing, store: KeyStore, tmp_path: Path
) -> None:
    await ring.look()
    before = ring.closes
    added(store)
    await ring.look()
    after = ring.closes
    (tmp_path / "keys.json").unlink()
    await ring.look()

    assert (before, after, ring.closes) == (False, True, True)


async def test_the_last_good_keys_hold_while_the_file_is_broken(
    ring: KeyRing, store: KeyStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key, token = added(store)
    await ring.look()
    (tmp_path / "keys.json").write_text("{")
    await ring.look()
    await ring.look()

    assert ring.key_of(token) == key
    assert ring.problem is not None
    assert caplog.text.count("keys.json can't be used") == 1


async def test_keys_that_never_were_good_let_nobody_in(
    ring: KeyRing, store: KeyStore, tmp_path: Path
) -> None:
    _, token = added(store)
    (tmp_path / "keys.json").write_text("{")
    await ring.look()

    assert ring.key_of(token) is None
    assert ring.closes


async def test_a_disk_that_fails_for_a_moment_closes_no_door(ring: KeyRing, tmp_path: Path) -> None:
    await ring.look()
    (tmp_path / "keys.json").mkdir()
    await ring.look()
    failed = ring.problem
    (tmp_path / "keys.json").rmdir()
    await ring.look()

    assert (failed is not None, ring.problem, ring.closes) == (True, None, False)


async def test_no_request_waits_for_a_store_that_is_slow(
    ring: KeyRing, store: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, token = added(store)
    await ring.look()
    going_on = threading.Event()
    monkeypatch.setattr(store, "data", lambda: going_on.wait(60) and None)
    monkeypatch.setattr("mochi_project.keys.ring._LATE_SECONDS", 0)
    slow = asyncio.create_task(ring.look())
    await asyncio.sleep(0)
    await ring.fresh()

    assert not slow.done()
    assert ring.key_of(token) == key
    going_on.set()
    await slow


async def ended_after(ring: KeyRing, key: Key, change: object = None) -> list[bool]:
    told: list[bool] = []
    ring.when_ended(key.id, told.append)
    await asyncio.sleep(0)
    assert told == []
    if callable(change):
        change()
    await ring.look()
    await ring.look()
    return told


async def test_who_uses_a_key_is_told_once_that_it_ended(ring: KeyRing, store: KeyStore) -> None:
    keys = [added(store)[0] for _ in range(4)]
    await ring.look()

    assert await ended_after(ring, keys[0], lambda: store.revoke(keys[0].id)) == [False]
    keep = lambda: store.revoke(keys[1].id, keep_turns=True)  # noqa: E731
    assert await ended_after(ring, keys[1], keep) == [True]
    assert await ended_after(ring, keys[2], lambda: store.rotate(keys[2].id)) == [True]
    assert await ended_after(ring, keys[3]) == []


async def test_a_key_ends_when_it_expires(ring: KeyRing, store: KeyStore, clock: Clock) -> None:
    key, token = added(store, expires_at=NOW + timedelta(minutes=1))
    await ring.look()
    assert not ring.has_ended(key)

    def expire() -> None:
        clock.now += timedelta(minutes=1)

    assert await ended_after(ring, key, expire) == [False]
    assert ring.has_ended(key)
    assert ring.key_of(token) == key


async def test_who_comes_after_its_end_is_told_at_once(ring: KeyRing, store: KeyStore) -> None:
    key, _ = added(store)
    store.revoke(key.id, keep_turns=True)
    await ring.look()
    told: list[bool] = []
    ring.when_ended(key.id, told.append)
    ring.when_ended("k00000000", told.append)
    await asyncio.sleep(0)

    assert told == [True, False]


async def test_who_came_with_a_token_that_was_changed_meanwhile_is_told_at_once(
    ring: KeyRing, store: KeyStore
) -> None:
    key, _ = added(store)
    store.rotate(key.id)
    await ring.look()
    told: list[bool] = []
    ring.when_ended(key.id, told.append, token_hash=key.principal.key_hash)
    await asyncio.sleep(0)

    assert told == [True]


async def test_who_stops_watching_is_told_nothing(ring: KeyRing, store: KeyStore) -> None:
    key, _ = added(store)
    await ring.look()
    told: list[bool] = []
    ring.when_ended(key.id, told.append)()
    ring.when_ended(None, told.append)()
    store.revoke(key.id)
    await ring.look()

    assert told == []


async def test_a_key_made_by_another_process_is_found_by_a_request(
    ring: KeyRing, store: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ring.fresh()
    key, token = added(store)
    monkeypatch.setattr("mochi_project.keys.ring._LATE_SECONDS", 0)
    await ring.fresh()

    assert ring.key_of(token) == key


async def test_an_unknown_id_costs_what_a_wrong_secret_costs(
    ring: KeyRing, store: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, token = added(store)
    await ring.look()
    compared: list[tuple[int, int]] = []

    def compare(one: str, other: str) -> bool:
        compared.append((len(one), len(other)))
        return one == other

    monkeypatch.setattr("mochi_project.keys.ring.hmac.compare_digest", compare)
    for wrong in (token[:-2] + b"AA", b"mochi_k00000000_" + token[16:]):
        ring.key_of(wrong)

    assert compared == [(71, 71)] * 2
