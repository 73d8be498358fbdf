"""A node dies or stands still: the next one goes on with its turns within the lease."""

import random

import pytest

from tests.cluster.invariants import check_same_everywhere, check_session
from tests.cluster.nodes import Listener

WORDS = [f"word{number} " for number in range(12)]


@pytest.fixture(scope="module")
def three_nodes(make_cluster):
    return make_cluster(MOCHI_ON_CRASH="continue")


@pytest.fixture
def turn(cluster, script):
    """Return (session id, question, listener) of a turn on the first node, in mid-text."""
    session_id = cluster.nodes[1].chat().new_session()
    question = script(WORDS, words_per_second=10, per_request=True)
    told = Listener(cluster.nodes[0].chat(), session_id, {"message": question, "detached": True})
    told.wait_for("content_delta", 3)
    return session_id, question, told


def check_continued(cluster, session_id, question, *told):
    messages = check_session(cluster, session_id, *told, question=question)
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert "interrupted" not in messages[1]
    whole = check_same_everywhere(cluster.running, session_id, random.Random(3))
    assert whole.count(b"event: turn_resumed\n") == whole.count(b"event: done\n") == 1
    assert b"event: error\n" not in whole


def test_the_next_node_goes_on_within_the_lease(cluster, inspect, turn, eventually):
    session_id, question, told = turn
    follower = Listener(cluster.nodes[1].chat(), session_id)
    follower.wait_for("content_delta", 3)
    cluster.nodes[0].kill()
    follower.wait()
    told.wait()
    assert follower.events[: len(told.events)] == told.events
    assert follower.names[-2:] == ["message_complete", "done"]
    assert follower.wait_for("turn_resumed").data["keeps"] == "text"
    check_continued(cluster, session_id, question, told, follower)
    eventually(lambda: inspect.untidy() == [])


def test_it_goes_on_although_nobody_asks(cluster, inspect, turn, eventually):
    session_id, question, told = turn
    cluster.nodes[0].kill()
    told.wait()
    eventually(lambda: inspect.untidy() == [])
    check_continued(cluster, session_id, question, told)


def test_a_frozen_owner_writes_nothing_when_it_wakes(cluster, inspect, turn, eventually, script):
    """Redis refuses its events, and the store its messages: the claim has the same turn, and
    another owner.
    """
    session_id, question, told = turn
    owner, other, _ = cluster.nodes
    follower = Listener(other.chat(), session_id)
    follower.wait_for("content_delta", 3)
    owner.freeze()
    follower.wait_for("turn_resumed")
    owner.thaw()
    told.wait()
    follower.wait()
    check_continued(cluster, session_id, question, told, follower)
    eventually(lambda: inspect.untidy() == [])
    for node in cluster.nodes:
        assert node.chat().say(session_id, script("alive"))[-2].name == "message_complete"


def test_a_turn_whose_journal_redis_lost_is_sealed(cluster, inspect, turn, eventually, script):
    session_id, _, told = turn
    owner, other, _ = cluster.nodes
    owner.freeze()
    inspect.redis.delete("mochi:unended", *inspect.redis.keys(f"mochi:j:{session_id}:*"))
    owner.kill()
    told.wait()
    eventually(lambda: inspect.untidy() == [])
    messages = other.chat().messages(session_id)
    assert [message["role"] for message in messages] == ["user"]
    assert other.chat().say(session_id, script("alive"))[-2].name == "message_complete"
