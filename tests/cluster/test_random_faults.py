"""Random faults at any moment, under clients that go from node to node: nothing shown is lost.

Each round breaks one thing of three nodes, their Redis or their store while clients of several
owners use them; afterwards everything that clients were told must be true on every node, for its
owner and nobody else.
"""

import itertools
import os
import random
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import pytest

from tests.cluster.invariants import check_one_answer, check_same_everywhere, check_stream
from tests.cluster.nodes import ADMIN, TOKEN, Cluster
from tests.cluster.tools import Notes
from tests.functional.conftest import block, read_events

ROUNDS = int(os.environ.get("MOCHI_E2E_CLUSTER_ROUNDS", "12"))
SEED = int(os.environ.get("MOCHI_E2E_CLUSTER_SEED", "0")) or random.SystemRandom().randrange(10**6)
ONLY = os.environ.get("MOCHI_E2E_CLUSTER_FAULT", "")
"""The name of the one fault to try; all of them if empty."""
OWNERS = ("default", "anna", "bob", "anna")
"""Whom each client acts for."""
MANY = int(os.environ.get("MOCHI_E2E_OWNERS", "12"))
"""The owners of the run with many of them."""
CONFIRM = "tool_call_confirmation_required"
ATTEMPTS = 400
"""How often a client asks again, each time at another node, before it says that nobody answers."""


class World:
    """A cluster, and what can happen to it.

    Each fault lasts for a moment that is drawn by lot; what happens in it is the test.
    """

    def __init__(self, cluster: Cluster, chance: random.Random) -> None:
        self.cluster = cluster
        self.chance = chance

    def a_moment(self, longest: float = 1.0) -> None:
        time.sleep(0.05 + self.chance.random() * longest)

    @property
    def one(self):
        return self.chance.choice(self.cluster.nodes)

    def kill_a_node(self) -> None:
        self.one.kill()

    def kill_all_nodes(self) -> None:
        for node in self.cluster.nodes:
            node.kill()
        self.cluster.start()

    def stop_a_node(self) -> None:
        self.one.stop()

    def freeze_a_node_for_a_moment(self) -> None:
        node = self.one
        node.freeze()
        self.a_moment()
        node.thaw()

    def freeze_a_node_beyond_its_lease(self) -> None:
        node = self.one
        node.freeze()
        self.a_moment(3)
        time.sleep(2.5)
        node.thaw()

    def freeze_and_kill_a_node(self) -> None:
        node = self.one
        node.freeze()
        self.a_moment()
        node.kill()

    def restart_redis(self) -> None:
        self.cluster.redis.kill()
        self.a_moment()
        self.cluster.redis.start()

    def freeze_redis(self) -> None:
        self.cluster.redis.freeze()
        self.a_moment(4)
        self.cluster.redis.thaw()

    def cut_a_node_off_redis(self) -> None:
        node = self.one
        node.redis.cut()
        self.a_moment(4)
        node.redis.heal()

    def cut_a_node_off_the_store(self) -> None:
        node = self.one
        node.store.cut()
        self.a_moment(4)
        node.store.heal()

    def drop_connections(self) -> None:
        for node in self.cluster.nodes:
            node.redis.drop()
            node.store.drop()

    def lose_answers_of_the_store(self) -> None:
        for node in self.cluster.nodes:
            node.store.swallow_answer(rb"^PUT ", nth=self.chance.randrange(1, 6))
        self.a_moment()

    def slow_the_store_down(self) -> None:
        for node in self.cluster.nodes:
            node.store.delay(self.chance.randrange(20, 200))
        self.a_moment()

    def kill_a_node_while_redis_restarts(self) -> None:
        self.cluster.redis.kill()
        self.one.kill()
        self.a_moment()
        self.cluster.redis.start()


FAULTS = [
    World.kill_a_node,
    World.freeze_a_node_beyond_its_lease,
    World.restart_redis,
    World.lose_answers_of_the_store,
    World.kill_all_nodes,
    World.cut_a_node_off_redis,
    World.cut_a_node_off_the_store,
    World.freeze_redis,
    World.stop_a_node,
    World.drop_connections,
    World.freeze_and_kill_a_node,
    World.kill_a_node_while_redis_restarts,
    World.freeze_a_node_for_a_moment,
    World.slow_the_store_down,
]


class Roamer:
    """A client that goes to another node whenever one fails it, and remembers what it was told.

    Attributes:
        events: What it was shown of its turn, each event once.
        question: What it asked.
        notes: What tools were asked to write down.
        headers: The key of its owner.
    """

    def __init__(
        self, cluster: Cluster, chance: random.Random, session_id: str, headers: dict[str, str]
    ) -> None:
        self.session_id = session_id
        self.headers = headers
        self.events: list = []
        self.notes: list[str] = []
        self.question = ""
        self._cluster = cluster
        self._chance = chance
        self._told: set[str] = set()

    def talk(self, asks: bool) -> None:
        """Have one turn with tools, to its end; approve its calls if it asks."""
        words = [f"{uuid.uuid4().hex[:6]} " for _ in range(self._chance.randrange(1, 60))]
        self.notes = [uuid.uuid4().hex for _ in range(self._chance.randrange(3))]
        calls = [{"tool_call": [{"name": "note", "args": {"text": text}}]} for text in self.notes]
        pace = self._chance.choice([30, 60, 200])
        self.question = block(*calls, words, per_request=True, words_per_second=pace)
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        body = {"message": self.question, "detached": True}
        for attempt in range(ATTEMPTS):
            if self._ask("POST", headers, body, asks) or self._ask("GET", {}, None, asks):
                return
            time.sleep(min(0.02 * attempt, 0.5))
        raise AssertionError(("nobody answers", self.session_id, self.events[-3:]))

    def _ask(self, method, headers, body, asks) -> bool:
        """Ask a node and listen to what it says; return whether the turn is over."""
        headers = dict(headers)
        if self.events:
            method, body = "GET", None
            headers = {"Last-Event-ID": self.events[-1].id}
        elif method == "GET":
            return False
        running = self._cluster.running
        if not running:
            return False
        url = self._chance.choice(running).url
        path = f"{url}/api/v1/chat/{self.session_id}/stream"
        limit = httpx.Timeout(20, connect=2)
        with (
            suppress(httpx.TransportError),
            httpx.Client(timeout=limit, trust_env=False, headers=self.headers) as http,
            http.stream(method, path, json=body, headers=headers) as answer,
        ):
            if answer.status_code == 204:
                return bool(self.events)
            if answer.status_code != 200:
                answer.read()
                return self._refused(answer)
            for event in read_events(answer):
                self.events.append(event)
                if event.name == CONFIRM and asks:
                    self._approve(event.data["confirmation_id"])
        return bool(self.events) and self.events[-1].name == "done"

    def _refused(self, answer: httpx.Response) -> bool:
        error = answer.json()["error"]
        assert answer.status_code in {409, 503, 507} or error["details"].get("retryable"), error
        return False

    def _approve(self, confirmation_id: str) -> None:
        body = {"confirmation_id": confirmation_id, "approved": True}
        for _ in range(ATTEMPTS):
            running = self._cluster.running
            if running:
                url = self._chance.choice(running).url
                path = f"{url}/api/v1/chat/{self.session_id}/confirm-tool"
                with suppress(httpx.TransportError):
                    answer = httpx.post(
                        path, json=body, timeout=10, trust_env=False, headers=self.headers
                    )
                    if answer.status_code < 500:
                        return
            time.sleep(0.05)


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    """Return what the tool wrote down."""
    return Notes(tmp_path_factory.mktemp("notes"))


@pytest.fixture(scope="module")
def three_nodes(make_cluster, notes):
    """Return three nodes that have the tool."""
    return make_cluster(**notes.variables(), MOCHI_API_TOKEN=TOKEN, MOCHI_MAX_ACTIVE_TURNS="500")


@pytest.fixture
def keys(cluster):
    """Return the headers of each owner's clients."""
    return cluster.keys_of("anna", "bob") | {"default": ADMIN}


@pytest.mark.timeout(300 + 60 * ROUNDS)
def test_a_random_fault_at_any_moment_loses_nothing(cluster, notes, inspect, eventually, keys):
    """Any of these at any moment, while clients talk, approve, and go from node to node: what was
    shown is in the session, once, on every node; no tool runs twice; nothing is left claimed or
    open.
    """
    print(f"MOCHI_E2E_CLUSTER_SEED={SEED}")
    chance = random.Random(SEED)
    faults = itertools.cycle([fault for fault in FAULTS if ONLY in {"", fault.__name__}])
    for number in range(ROUNDS):
        fault = next(faults)
        what = f"round {number}, {fault.__name__}, MOCHI_E2E_CLUSTER_SEED={SEED}"
        print(what, time.strftime("%X"), flush=True)
        roamers = one_round(World(cluster, chance), fault, [keys[owner] for owner in OWNERS])
        cluster.heal()
        try:
            eventually(lambda: inspect.untidy() == [], 90)
        except AssertionError as error:
            raise AssertionError((what, inspect.untidy())) from error
        for roamer in roamers:
            with cluster.with_key(roamer.headers):
                check(cluster, roamer, notes, what, chance)
            for headers in keys.values():
                check_whose(cluster, roamer, headers, what)


@pytest.mark.timeout(300 + 10 * MANY)
def test_many_owners_at_once_lose_nothing_with_nodes_that_die(cluster, notes, inspect, eventually):
    """A node dies under many owners with a turn each, and then all nodes at once: each owner has
    what was shown, and no other owner has.
    """
    chance = random.Random(SEED)
    keys = list(cluster.keys_of(*(f"owner{number}" for number in range(MANY))).values())
    for fault in (World.kill_a_node, World.kill_all_nodes):
        what = f"{MANY} owners, {fault.__name__}, MOCHI_E2E_CLUSTER_SEED={SEED}"
        roamers = one_round(World(cluster, chance), fault, keys)
        eventually(lambda: inspect.untidy() == [], 90)
        for roamer, next_one in zip(roamers, [*roamers[1:], roamers[0]], strict=True):
            with cluster.with_key(roamer.headers):
                check(cluster, roamer, notes, what, chance)
            check_whose(cluster, roamer, next_one.headers, what)


def one_round(world: World, fault, keys) -> list[Roamer]:
    """Break something under some clients, each with its key, and return them."""
    chance = world.chance
    policies = ["never_confirm", "always_confirm"]
    roamers = []
    for number, headers in enumerate(keys):
        settings = {"tools": ["note"], "execution_policy": policies[number % 2]}
        client = world.chance.choice(world.cluster.running).server.chat(headers=headers)
        session_id = client.new_session(tool_settings=settings)
        chance_of_one = random.Random(chance.random())
        roamers.append(Roamer(world.cluster, chance_of_one, session_id, headers))
    with ThreadPoolExecutor(len(keys)) as pool:
        talking = [
            pool.submit(roamer.talk, asks=bool(number % 2)) for number, roamer in enumerate(roamers)
        ]
        world.a_moment()
        fault(world)
        world.a_moment()
        world.cluster.heal()
        for each in talking:
            each.result(timeout=150)
    return roamers


def check_whose(cluster: Cluster, roamer: Roamer, headers: dict[str, str], what: str) -> None:
    """Check that one owner sees a session on each node, and others on none."""
    expected = 200 if headers == roamer.headers else 404
    for node in cluster.nodes:
        http = node.server.chat(headers=headers).http
        answer = http.get(f"/sessions/{roamer.session_id}/messages")
        assert answer.status_code == expected, (what, node, answer.text)


def check(cluster: Cluster, roamer: Roamer, notes: Notes, what: str, chance) -> None:
    """Check that all that a client was told is true on every node."""
    versions = [node.chat().messages(roamer.session_id) for node in cluster.nodes]
    assert all(version == versions[0] for version in versions), (what, versions)
    messages, events = versions[0], roamer.events
    check_stream(events)
    assert [m["content"] for m in messages if m["role"] == "user"] == [roamer.question], what
    check_one_answer(messages)
    told = "".join(
        (event.data["content"] if event.name == "content_delta" else "\n")
        for event in events
        if event.name in {"content_delta", "tool_call"}
    ).rpartition("\n")[2]
    said = [m["content"] for m in messages if m["role"] == "assistant"]
    assert not told.strip() or any(text.startswith(told.strip()) for text in said), (what, told)
    complete = [event.data for event in events if event.name == "message_complete"]
    if complete:
        assert messages[-1]["content"] == complete[0]["content"], (what, messages)
        assert "interrupted" not in messages[-1], (what, messages)
    results = Counter(m["tool_call_id"] for m in messages if m["role"] == "tool")
    for event in events:
        if event.name == "tool_result":
            assert results[event.data["tool_call_id"]] == 1, (what, event, messages)
    runs = Counter(notes.taken())
    assert [note for note in roamer.notes if runs[note] > 1] == [], what
    whole = check_same_everywhere(cluster.nodes, roamer.session_id, chance, points=1)
    for event in events:
        assert f"id: {event.id}\n".encode() in whole, (what, event)
