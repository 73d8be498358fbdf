"""Checks that an object store takes writes and honours their conditions.

Without conditions updates get lost.

Some stores accept the headers and ignore them; some check and write non-atomically, so that two
concurrent writers both succeed.
"""

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from cluster_app.objects.store import (
    ObjectChanged,
    ObjectExists,
    ObjectStore,
    OutcomeUnclear,
    Tag,
)

FOLDER = "probes"
SHARED_PROBE = "is-it-written"
WRITERS = 8
ROUNDS = 4


class ConditionsIgnored(Exception):
    """The object store writes although the condition is not met."""


def require_conditions(store: ObjectStore) -> None:
    """Create an object twice, and replace it with a wrong tag: only the first write may succeed.

    Raises:
        ConditionsIgnored: The store ignores conditions, so it can't be used.
        StorageUnavailable: The store can't be reached.
    """
    with _probe(store) as (objects, key):
        tag = objects.put_new(key, b"first")
        _require_refusal(store, lambda: objects.put_new(key, b"second"), "creates an object twice")
        wrong = Tag('"00000000000000000000000000000000"', tag.version and "1")
        _require_refusal(
            store,
            lambda: objects.put_if(key, b"third", wrong),
            "replaces another object than named",
        )
        second = objects.put_if(key, b"fourth", tag)
        _require_refusal(
            store, lambda: objects.put_if(key, b"fifth", tag), "replaces an object that has changed"
        )
        if objects.get(key).tag != second:
            raise ConditionsIgnored(f"{store.name} reads another object than was written last.")


def require_atomic_conditions(store: ObjectStore) -> None:
    """Create and replace objects concurrently: in each round only one writer may succeed.

    Raises:
        ConditionsIgnored: Several succeeded.
        StorageUnavailable: The store can't be reached.
    """
    for _ in range(ROUNDS):
        with _probe(store) as (objects, key):
            created = _winners(lambda data: objects.put_new(key, data))
            _require_one(store, len(created), "create one object")
            replaced = _winners(partial(_replace, objects, key, created[0]))
            _require_one(store, len(replaced), "replace one object")


def require_writes(store: ObjectStore) -> None:
    """Write a small object, one for all processes, and remove it.

    Raises:
        StorageFull, StorageUnavailable: The store does not take it.
    """
    objects = store.under(FOLDER)
    objects.put(SHARED_PROBE, b"1")
    objects.delete(SHARED_PROBE)


def _replace(objects: ObjectStore, key: str, tag: Tag, data: bytes) -> Tag:
    return objects.put_if(key, data, tag)


def _winners(write: Callable[[bytes], Tag]) -> list[Tag]:
    """Start writers concurrently; return the tags of those that succeeded."""
    start = threading.Barrier(WRITERS)
    won: list[Tag] = []
    unclear: list[OutcomeUnclear] = []
    failed: list[Exception] = []

    def run(data: bytes) -> None:
        start.wait()
        try:
            won.append(write(data))
        except (ObjectExists, ObjectChanged):
            pass
        except OutcomeUnclear as error:  # possibly refused because of a concurrent write
            unclear.append(error)
        except Exception as error:  # noqa: BLE001 - raised below
            failed.append(error)

    writers = [
        # Different content, because equal content has an equal tag, which another writer matches.
        threading.Thread(target=run, args=(secrets.token_bytes(16),))
        for _ in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    if failed or (unclear and not won):
        raise [*failed, *unclear][0]
    return won


def _require_one(store: ObjectStore, count: int, what: str) -> None:
    if count != 1:
        raise ConditionsIgnored(
            f"{store.name} let {count} of {WRITERS} writers at once {what}: sessions would get "
            "lost. Use another object store."
        )


def _require_refusal(store: ObjectStore, write: Callable[[], Tag], what: str) -> None:
    try:
        write()
    except (ObjectExists, ObjectChanged):
        return
    raise ConditionsIgnored(
        f"{store.name} {what}: it ignores the conditions of writes (If-Match, If-None-Match), so "
        "that sessions would get lost. Use an object store that keeps to them."
    )


@contextmanager
def _probe(store: ObjectStore) -> Iterator[tuple[ObjectStore, str]]:
    """Yield a store and a unique key for a probe object, which is removed afterwards."""
    objects, key = store.under(FOLDER), secrets.token_hex(8)
    try:
        yield objects, key
    finally:
        objects.delete(key)
