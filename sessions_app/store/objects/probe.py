"""Checks that an object store honours conditional writes; without them sessions get lost.

Some accept the headers and ignore them; some look first and write then, so that of two writers at
once both succeed.
"""

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from sessions_app.store.objects.store import (
    ObjectChanged,
    ObjectExists,
    ObjectStore,
    OutcomeUnclear,
    Tag,
)

FOLDER = "probes"
WRITERS = 8
ROUNDS = 4


class ConditionsIgnored(Exception):
    """The object store writes although the condition of the write does not hold."""


def require_conditions(store: ObjectStore) -> None:
    """Write an object twice, and once with a wrong tag: only the first may succeed.

    Raises:
        ConditionsIgnored: The store can't keep sessions of several processes.
        StorageUnavailable: It can't be asked.
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
    """Let several writers at once create and replace objects: of each round, one may succeed.

    Raises:
        ConditionsIgnored: Several did.
        StorageUnavailable: The store can't be asked.
    """
    for _ in range(ROUNDS):
        with _probe(store) as (objects, key):
            created = _winners(lambda data: objects.put_new(key, data))
            _require_one(store, len(created), "create one object")
            replaced = _winners(partial(_replace, objects, key, created[0]))
            _require_one(store, len(replaced), "replace one object")


def _replace(objects: ObjectStore, key: str, tag: Tag, data: bytes) -> Tag:
    return objects.put_if(key, data, tag)


def _winners(write: Callable[[bytes], Tag]) -> list[Tag]:
    """Return the tags of the writers that succeeded, which all began at once."""
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
        except OutcomeUnclear as error:  # refused, perhaps, for another one that was under way
            unclear.append(error)
        except Exception as error:  # noqa: BLE001 - raised below
            failed.append(error)

    writers = [
        # Equal content would have an equal tag, under which another one may replace it.
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
    """Yield where to write an object that nobody else writes; it is removed afterwards."""
    objects, key = store.under(FOLDER), secrets.token_hex(8)
    try:
        yield objects, key
    finally:
        objects.delete(key)
