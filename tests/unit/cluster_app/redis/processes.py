"""Processes that write sessions and list them, over one index."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cluster_app.objects.store import ObjectStore
from cluster_app.redis.connection import RedisConnection
from cluster_app.redis.index_entries import IndexEntries
from cluster_app.redis.session_index import IndexTimes, RedisSessionIndex
from sessions_app.errors import StorageUnavailable
from sessions_app.format.codec import document_of, to_json
from sessions_app.format.message_format import messages_to_json
from sessions_app.messages import UserMessage
from sessions_app.session import Session, append_messages, make_session
from sessions_app.store.repository import Claim
from tests.object_server import ObjectServer

AT_ONCE = IndexTimes(dirty_ms=0, wait_seconds=60)
"""Every mark counts as left over; what a listing waits for, it gets."""
LATER = IndexTimes(dirty_ms=3_600_000, wait_seconds=60)
"""No mark counts as left over."""


def session(number: int, text: str = "Hello", second: int = 0) -> Session:
    now = f"2026-01-01T00:00:{second:02}.000000+00:00"
    made = make_session(f"{number:010x}", "m", now=now)
    message = UserMessage(content=text, message_id="a1b2c3d4e5", timestamp=now)
    return append_messages(made, message, now=now)


def claim_on(kept: Session, owner: str = "some-owner") -> Claim:
    return Claim(session_id=kept.session_id, turn_id="a-turn", owner=owner, started_at="now")


class Process:
    """A process that writes sessions and lists them."""

    def __init__(
        self, connection: RedisConnection, store: ObjectStore, times: IndexTimes = LATER
    ) -> None:
        self.store = store
        self.entries = IndexEntries(connection, store.name)
        self.index = RedisSessionIndex(connection, store, times=times)

    def put(self, kept: Session, claim: Claim | None = None) -> str:
        """Write an object, and tell nobody."""
        document: dict[str, Any] = document_of(kept, messages_to_json(kept.messages))
        turn = {"id": claim.turn_id, "worker": claim.owner, "started_at": "now"} if claim else None
        messages = document.pop("messages")
        document |= {"revision": "0" * 16, **({"turn": turn} if turn else {}), "messages": messages}
        return self.store.put(f"{kept.session_id}.json", to_json(document, readable=True)).etag

    def write(self, kept: Session, claim: Claim | None = None) -> None:
        mark = self.index.writing(kept.session_id)
        etag = self.put(kept, claim)
        self.index.wrote(kept.session_id, mark, etag=etag, metadata=kept.metadata, claim=claim)

    def delete(self, kept: Session) -> None:
        mark = self.index.writing(kept.session_id)
        self.store.delete(f"{kept.session_id}.json")
        self.index.removed(kept.session_id, mark)

    def listed(self) -> list[tuple[str, str | None]]:
        return [(each.session_id, each.preview) for each in self.index.listing().sessions]


class Link(RedisConnection):
    """A connection that can be cut."""

    is_cut = False

    @contextmanager
    def translated(self) -> Iterator[None]:
        if self.is_cut:
            raise StorageUnavailable("cut")
        with super().translated():
            yield


def shown(*sessions: Session) -> list[tuple[str, str | None]]:
    return [(each.session_id, each.metadata.preview) for each in sessions]


def heads_read(server: ObjectServer) -> list[str]:
    """Return the sessions whose objects were read."""
    return [
        request.path.rpartition("/")[2].removesuffix(".json")
        for request in server.requests
        if request.method == "GET" and not request.query
    ]


def lists_read(server: ObjectServer) -> int:
    return sum("list-type" in request.query for request in server.requests)


def forget_everything(connection: RedisConnection) -> None:
    for key in connection.client.scan_iter(f"{connection.prefix}*"):
        connection.client.delete(key)


@contextmanager
def lost(connection: RedisConnection) -> Iterator[None]:
    """Take back what is written in the block, as a failover to a replica that lags behind does."""
    client = connection.client
    replica = {key: client.dump(key) for key in client.scan_iter(f"{connection.prefix}*")}
    yield
    forget_everything(connection)
    for key, value in replica.items():
        client.restore(key, 0, value)


def start_over(connection: RedisConnection) -> None:
    """Have a server start a data set of its own, as a replica does that is promoted."""
    connection.client.replicaof("127.0.0.1", "1")
    connection.client.replicaof("NO", "ONE")


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)
