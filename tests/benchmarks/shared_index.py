"""What a list of sessions costs that are objects: the index in Redis, beside files.

Redis is a process of its own. The store is moto in this one, so that the time in which an index is
made anew is mostly moto's.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from cluster_app.objects.store import ObjectStore
from cluster_app.redis.connection import RedisConnection
from cluster_app.redis.session_index import RedisSessionIndex
from sessions_app.session import SessionMetadata

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.object_server import KEYS, ObjectServer
from tests.redis_server import running_redis

LISTS = 50
CHANGES = 20
REMADE = 1_000


def lists(sessions: Sequence[SessionMetadata], some_files: Sequence[Path]) -> dict[str, float]:
    """Seconds to list sessions, warm, after one changed, and first; to note a write; to index.

    Args:
        sessions: What is listed.
        some_files: Files that are put into the store, of which an index is made.
    """
    os.environ |= KEYS
    server = ObjectServer()
    try:
        with running_redis() as url:
            connection = RedisConnection(url)
            store = ObjectStore(server.make_bucket())
            return _listed(connection, store, sessions) | _made(connection, store, some_files)
    finally:
        server.stop()


def _listed(
    connection: RedisConnection, store: ObjectStore, sessions: Sequence[SessionMetadata]
) -> dict[str, float]:
    one, other = (_index(connection, store.under("listed")) for _ in range(2))
    one.compare()  # of nothing: so that it is complete
    for metadata in sessions:
        _write(one, metadata, "first")
    first = _timed(other.listing)
    found = other.listing()
    assert (len(found.sessions), found.complete) == (len(sessions), True)
    warm = [_timed(other.listing) for _ in range(LISTS)]
    writes, changed = [], []
    for metadata in sessions[:CHANGES]:
        writes.append(_timed(lambda metadata=metadata: _write(one, metadata, "second")))
        changed.append(_timed(other.listing))
    return {
        "first": first,
        "warm": median(warm),
        "changed": median(changed),
        "write": median(writes),
    }


def _made(
    connection: RedisConnection, store: ObjectStore, files: Sequence[Path]
) -> dict[str, float]:
    objects = store.under("made")
    for path in files:
        objects.put(path.name, path.read_bytes())
    index = _index(connection, objects)
    made = _timed(index.compare)
    assert len(index.listing().sessions) == len(files)
    return {"made": made, "compared": _timed(index.compare)}


def _index(connection: RedisConnection, store: ObjectStore) -> RedisSessionIndex:
    return RedisSessionIndex(connection, store, note_claim=lambda _claim: None)


def _write(index: RedisSessionIndex, metadata: SessionMetadata, etag: str) -> None:
    mark = index.writing(metadata.session_id)
    index.wrote(metadata.session_id, mark, etag=etag, metadata=metadata)


def _timed(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began
