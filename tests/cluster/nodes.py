"""Nodes: real servers with a data directory each, which share nothing but Redis and the store."""

import itertools
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.cluster.relay import Relay
from tests.cluster.servers import BUCKET, KEYS, RedisServer, StoreServer
from tests.functional.conftest import Chat, Event, Server, end, launch, read_events

LEASE_SECONDS = 2
"""Short, so that deaths are found soon; long, so that a busy machine is not taken for dead."""
LIMIT_SECONDS = 60
TOKEN = "of-who-runs-the-cluster-in-tests-with-owners"
ADMIN = {"Authorization": f"Bearer {TOKEN}"}
_NEXT_CLUSTER = itertools.count(1)


class Node:
    """One server, and its relays to what it shares with others.

    Attributes:
        redis: The way to Redis.
        store: The way to the object store.
        headers: What its clients send with each request.
    """

    def __init__(
        self, number: int, directory: Path, redis: RedisServer, store: StoreServer, prefix: str
    ) -> None:
        self.number = number
        self.data_dir = directory / "data"
        self.data_dir.mkdir(parents=True)
        self.log = directory / "log"
        self.redis = Relay(redis.address)
        self.store = Relay(("127.0.0.1", store.port))
        self.headers: dict[str, str] = {}
        self._prefix = prefix
        self._server: Server | None = None
        self._runs = False

    def __repr__(self) -> str:
        return f"node {self.number}"

    @property
    def server(self) -> Server:
        """The server, which runs."""
        assert self._server is not None, f"{self} was not started"
        return self._server

    @property
    def url(self) -> str:
        """Where it listens."""
        return self.server.url

    @property
    def runs(self) -> bool:
        """Whether it was started, and not ended since; asked by threads of clients, too."""
        return self._runs

    def variables(self) -> dict[str, str]:
        """Return the environment by which it finds what it shares."""
        store = f"endpoint=http://127.0.0.1:{self.store.port}&region=us-east-1"
        return {
            **KEYS,
            "MOCHI_JOURNAL_URL": f"redis://127.0.0.1:{self.redis.port}/0",
            "MOCHI_SESSIONS_URL": f"s3://{BUCKET}/{self._prefix}?{store}",
            "MOCHI_SECRET_KEY": "the same on every node of a cluster, and long enough for Django",
            "MOCHI_LEASE_SECONDS": str(LEASE_SECONDS),
            "MOCHI_SHUTDOWN_GRACE_SECONDS": "1",
        }

    def start(self, *flags: str, **variables: str) -> None:
        """Start it, on an address of its own."""
        host = ("--host", f"127.0.0.{10 + self.number}")
        self._server = launch(
            self.data_dir, self.log, *host, *flags, **{**self.variables(), **variables}
        )
        self._runs = True

    def stop(self) -> None:
        """Stop it as an operator does."""
        self._runs = False
        self.server.stop()
        end(self.server)

    def kill(self) -> None:
        """Let it die as a machine does: all of it at once, and nobody says goodbye."""
        self._runs = False
        end(self.server)

    def freeze(self) -> None:
        """Let every process of it stand still."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let every process of it go on."""
        self._signal(signal.SIGCONT)

    def heal(self) -> None:
        """Mend its connections."""
        self.redis.heal()
        self.store.heal()

    def chat(self) -> Chat:
        """Return a client of this node."""
        return self.server.chat(headers=self.headers)

    def left_behind(self) -> list[str]:
        """Return the files in its data directory, but for its ledger and what it searches."""
        ledger = self.data_dir / ".mochi" / "usage"
        files = [
            path
            for path in self.data_dir.rglob("*")
            if not path.is_dir() and ledger not in path.parents
            if not path.name.startswith("search.")
        ]
        return sorted(path.relative_to(self.data_dir).as_posix() for path in files)

    def close(self) -> None:
        """End it and its relays."""
        if self._server is not None:
            end(self._server)
        self.redis.close()
        self.store.close()

    def _signal(self, number: signal.Signals) -> None:
        family = [psutil.Process(self.server.process.pid)]
        family += family[0].children(recursive=True)
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.send_signal(number)


class NextNode(httpx.BaseTransport):
    """Sends each request to another node than the one before, and past those that are not there."""

    def __init__(self, nodes: Callable[[], Sequence[Node]]) -> None:
        self._nodes = nodes
        self._turn = itertools.count()
        self._http = httpx.HTTPTransport(verify=False)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        nodes = self._nodes()
        for _ in nodes:
            node = httpx.URL(nodes[next(self._turn) % len(nodes)].url)
            request.url = request.url.copy_with(host=node.host, port=node.port)
            request.headers["Host"] = node.netloc.decode()
            try:
                return self._http.handle_request(request)
            except httpx.ConnectError as error:
                refused = error
        raise refused

    def close(self) -> None:
        self._http.close()


class Listener(threading.Thread):
    """Listens to one stream until it ends or breaks.

    Args:
        chat: Who asks.
        session_id: The session.
        body: What is asked; None picks up what runs.
        after: The id of the last event that is known already.

    Attributes:
        events: What was received so far.
        status: The status of the answer.
        refusal: The body of an answer that is no stream.
        broke: Why it broke off, if it did.
    """

    def __init__(
        self,
        chat: Chat,
        session_id: str,
        body: dict[str, Any] | None = None,
        *,
        after: str | None = None,
        key: str | None = None,
    ) -> None:
        super().__init__(daemon=True)
        self.session_id = session_id
        self.events: list[Event] = []
        self.status: int | None = None
        self.refusal: dict[str, Any] = {}
        self.broke: Exception | None = None
        self._chat = chat
        self._body = body
        self._headers = {
            name: value
            for name, value in (("Last-Event-ID", after), ("Idempotency-Key", key))
            if value
        }
        self._changed = threading.Condition()
        self._over = False
        self.start()

    def run(self) -> None:
        path = f"/chat/{self.session_id}/stream"
        method = "GET" if self._body is None else "POST"
        try:
            with self._chat.http.stream(
                method, path, json=self._body, headers=self._headers, timeout=LIMIT_SECONDS
            ) as answer:
                self.status = answer.status_code
                if answer.status_code != 200:
                    self.refusal = {} if not answer.read() else answer.json()["error"]
                    return
                for event in read_events(answer):
                    with self._changed:
                        self.events.append(event)
                        self._changed.notify_all()
        except httpx.TransportError as error:
            self.broke = error
        finally:
            with self._changed:
                self._over = True
                self._changed.notify_all()

    def wait_for(self, name: str, count: int = 1) -> Event:
        """Wait for so many events of a name, and return the last of them."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._over or self._count(name) >= count, timeout=LIMIT_SECONDS
            )
            found = [event for event in self.events if event.name == name]
            assert len(found) >= count, (name, self.names, self.status, self.refusal, self.broke)
            return found[count - 1]

    def wait(self) -> list[Event]:
        """Wait for its end, and return all events."""
        self.join(LIMIT_SECONDS)
        assert not self.is_alive(), ("it never ended", self.names)
        return self.events

    @property
    def names(self) -> list[str]:
        """The names of the events."""
        return [event.name for event in self.events]

    @property
    def text(self) -> str:
        """The answer, as far as it was received after the last tool."""
        names = self.names
        begin = len(names) - names[::-1].index("tool_result") if "tool_result" in names else 0
        return "".join(
            event.data["content"] for event in self.events[begin:] if event.name == "content_delta"
        )

    def _count(self, name: str) -> int:
        return sum(event.name == name for event in self.events)


class Cluster:
    """Some nodes, and what they share.

    Args:
        directory: Where everything is.
        store: The object store.
        nodes: How many nodes.
        flags: The command line of each.
        variables: The environment of each.

    Attributes:
        nodes: All nodes.
        redis: The Redis, without any relay.
        store: The object store, likewise.
        prefix: Where in the store the cluster keeps what it has.
    """

    def __init__(
        self,
        directory: Path,
        store: StoreServer,
        *,
        nodes: int = 3,
        flags: Sequence[str] = (),
        **variables: str,
    ) -> None:
        self.prefix = f"cluster-{next(_NEXT_CLUSTER)}"
        self.store = store
        self.redis = RedisServer(directory / "redis")
        self.nodes = [
            Node(number, directory / f"node{number}", self.redis, store, self.prefix)
            for number in range(1, nodes + 1)
        ]
        self._clients: list[Chat] = []
        self._flags = flags
        self._variables = variables

    def start(self) -> None:
        """Start all nodes that do not run."""
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            waiting = [node for node in self.nodes if not node.runs]
            starting = [
                pool.submit(node.start, *self._flags, **self._variables) for node in waiting
            ]
            for each in starting:
                each.result()

    def heal(self) -> None:
        """Mend everything, and start what does not run."""
        for node in self.nodes:
            node.heal()
            if node.runs:
                node.thaw()
        self.redis.thaw()
        self.start()

    def keys_of(self, *owners: str) -> dict[str, dict[str, str]]:
        """Return the headers of each owner's clients, by new keys that each node knows."""
        keys = {}
        http = self.nodes[0].server.chat(headers=ADMIN).http
        for owner in owners:
            answer = http.post("/keys", json={"owner": owner, "name": f"of {owner}"})
            assert answer.status_code == 201, answer.text
            keys[owner] = {"Authorization": f"Bearer {answer.json()['token']}"}
        deadline = time.monotonic() + LIMIT_SECONDS
        for node in self.nodes:
            http = node.server.chat().http
            while http.get("/sessions", headers=keys[owners[-1]]).status_code == 401:
                assert time.monotonic() < deadline, f"{node} does not know a key"
                time.sleep(0.05)
        return keys

    @contextmanager
    def with_key(self, headers: dict[str, str]) -> Iterator[None]:
        """Have the clients that are made in the block send a key."""
        for node in self.nodes:
            node.headers = headers
        yield
        for node in self.nodes:
            node.headers = {}

    def client(self) -> Chat:
        """Return a client whose every request goes to another node, as a proxy without affinity."""
        options = {"transport": NextNode(lambda: self.running), "headers": self.nodes[0].headers}
        chat = Chat("http://cluster", **options)
        self._clients.append(chat)
        return chat

    @property
    def running(self) -> list[Node]:
        """The nodes whose process is there."""
        return [node for node in self.nodes if node.runs]

    def others(self, node: Node) -> list[Node]:
        """Return the running nodes but one."""
        return [other for other in self.running if other is not node]

    def close(self) -> None:
        """End all of it."""
        for client in self._clients:
            client.http.close()
        for node in self.nodes:
            node.close()
        self.redis.kill()


def clusters(directory: Path, store: StoreServer) -> Iterator[Callable[..., Cluster]]:
    """Yield how to make clusters, which end afterwards."""
    made: list[Cluster] = []

    def make(**options: Any) -> Cluster:
        made.append(Cluster(directory / str(len(made)), store, **options))
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()
