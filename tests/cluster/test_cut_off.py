"""A node is cut off from Redis or from the store, or answers of the store get lost."""

import random

import pytest

from tests.cluster.invariants import check_same_everywhere, check_session
from tests.cluster.nodes import Cluster, Listener
from tests.cluster.servers import StoreServer

OTHER_MODEL = "scripted-plain:latest"
PUTS = 6
"""How many times a turn with two rounds of tools may write its session, and more."""


@pytest.fixture(scope="module")
def three_nodes(make_cluster):
    """Return three nodes that give a turn up soon when Redis is away."""
    return make_cluster(MOCHI_JOURNAL_TIMEOUT_SECONDS="1")


def test_a_node_without_redis_is_fenced(cluster, inspect, script, eventually):
    """One node is cut off from Redis: others seal its turns once its lease has run out, and tell
    their end to whoever listens through them. At the node itself streams break off, or end with
    `SERVICE_UNAVAILABLE` if it was faster. When it is back, it works under a new name.
    """
    owner, other, third = cluster.nodes
    session_id = other.chat().new_session()
    question = script([f"word{n} " for n in range(2000)], words_per_second=20)
    turn = Listener(owner.chat(), session_id, {"message": question})
    turn.wait_for("content_delta", 3)
    follower = Listener(third.chat(), session_id)
    follower.wait_for("content_delta", 5)
    owner.redis.cut()
    turn.wait()
    follower.wait()
    assert follower.names[-2:] == ["error", "done"], (follower.broke, follower.events[-3:])
    shown = [event for event in turn.events if event.name == "content_delta"]
    assert shown == follower.events[1 : len(shown) + 1]
    assert turn.names[len(shown) + 1 :] in ([], ["error", "done"])
    owner.redis.heal()
    messages = check_session(cluster, session_id, turn, follower, question=question)
    assert messages[1]["interrupted"] is True
    eventually(lambda: inspect.untidy() == [])
    check_same_everywhere(cluster.nodes, session_id, random.Random(8))

    def works():
        again = Listener(owner.chat(), session_id, {"message": script("alive")})
        again.wait()
        return again.text == "alive"

    eventually(works)


def test_a_node_without_its_store_leaves_its_turn_to_others(cluster, inspect, script, eventually):
    """One node is cut off from the object store: its answer is journalled whole, and its save is
    tried for 30 seconds; then it leaves the turn to others, who save it from the journal.
    """
    owner, other, third = cluster.nodes
    session_id = other.chat().new_session()
    question = script([f"word{n} " for n in range(20)], words_per_second=20)
    turn = Listener(owner.chat(), session_id, {"message": question, "detached": True})
    follower = Listener(third.chat(), session_id)
    turn.wait_for("content_delta", 5)
    owner.store.cut()
    follower.wait()
    eventually(lambda: session_id not in str(inspect.untidy()))
    owner.store.heal()
    turn.wait()
    if not follower.events:  # it asked before there was anything
        follower = Listener(third.chat(), session_id)
        follower.wait()
    messages = check_session(cluster, session_id, turn, follower, question=question)
    assert messages[1]["content"] == "".join(f"word{n} " for n in range(20)).strip()
    eventually(lambda: inspect.untidy() == [])
    assert owner.chat().say(session_id, script("alive"))[-2].name == "message_complete"


@pytest.mark.parametrize("nth", range(1, PUTS))
def test_every_lost_answer_of_the_store_is_looked_up(cluster, inspect, script, eventually, nth):
    """A write of the store is carried out, and its answer is lost, whichever of a turn's writes it
    is: the server finds out that it was its own. Nothing is written twice, and nobody is told that
    the session is busy.
    """
    owner, other, _ = cluster.nodes
    session_id = other.chat().new_session()
    lost = owner.store.swallow_answer(rb"^PUT [^ ]*/sessions/" + session_id.encode(), nth=nth)
    calls = {"tool_call": [{"name": "nope", "args": {}}]}
    question = script(calls, calls, ["The ", "end"], per_request=True)
    turn = Listener(owner.chat(), session_id, {"message": question})
    turn.wait()
    assert turn.names[-2:] == ["message_complete", "done"], (turn.refusal, turn.names)
    owner.store.heal()
    messages = check_session(cluster, session_id, turn, question=question)
    roles = ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert [m["role"] for m in messages] == roles
    eventually(lambda: inspect.untidy() == [])
    if not lost.reached.is_set():
        pytest.skip(f"the turn wrote its session less than {nth} times")


@pytest.mark.parametrize("route", ["create", "change", "delete"])
def test_a_lost_answer_to_a_request_is_looked_up_too(cluster, route):
    """The same for what is done to sessions without a turn: made, changed, deleted."""
    owner, other, _ = cluster.nodes
    client = owner.chat()
    session_id = client.new_session()
    if route == "create":
        lost = owner.store.swallow_answer(rb"^PUT [^ ]*/sessions/")
        session_id = client.new_session()
    elif route == "change":
        lost = owner.store.swallow_answer(rb"^PUT [^ ]*/sessions/")
        answer = client.http.patch(f"/sessions/{session_id}", json={"model": OTHER_MODEL})
        assert answer.status_code == 200, answer.text
    else:
        lost = owner.store.swallow_answer(rb"^(PUT|DELETE) [^ ]*/sessions/")
        assert client.http.delete(f"/sessions/{session_id}").is_success
    lost.wait()
    found = other.chat().http.get(f"/sessions/{session_id}")
    assert found.status_code == (404 if route == "delete" else 200)
    if route == "change":
        assert found.json()["model"] == OTHER_MODEL


def test_a_store_that_ignores_conditions_is_refused(tmp_path):
    """The store takes conditional writes and ignores the condition: the server does not start."""
    store = StoreServer("--ignores-conditions")
    cluster = Cluster(tmp_path, store, nodes=1)
    try:
        with pytest.raises(pytest.fail.Exception, match="condition"):
            cluster.start()
    finally:
        cluster.close()
        store.kill()
