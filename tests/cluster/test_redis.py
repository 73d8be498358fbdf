"""Redis is restarted, away, full or empty: what matters is in the store, and turns go on or end."""

import random

import pytest

from tests.cluster.invariants import check_same_everywhere, check_session
from tests.cluster.nodes import Listener


@pytest.fixture(scope="module")
def three_nodes(make_cluster):
    """Return three nodes that bear it for long that Redis is away."""
    return make_cluster(MOCHI_JOURNAL_TIMEOUT_SECONDS="60")


@pytest.fixture
def long_turn(cluster, script):
    """Return (session id, question, listener) of a turn that goes on for a few seconds."""
    session_id = cluster.nodes[1].chat().new_session()
    question = script([f"word{n} " for n in range(120)], words_per_second=60)
    turn = Listener(cluster.nodes[0].chat(), session_id, {"message": question})
    turn.wait_for("content_delta", 10)
    return session_id, question, turn


def check_nothing_happened(cluster, inspect, eventually, session_id, question, *told):
    """Check that a turn came to its own end, and that nobody was given up for dead."""
    for listener in told:
        assert listener.wait()[-2].name == "message_complete", listener.names
        assert listener.text == "".join(f"word{n} " for n in range(120)).rstrip()
    messages = check_session(cluster, session_id, *told, question=question)
    assert [m["role"] for m in messages] == ["user", "assistant"]
    check_same_everywhere(cluster.nodes, session_id, random.Random(6))
    eventually(lambda: inspect.untidy() == [])


def is_missed(cluster):
    """Whether every node knows that Redis is away."""
    return all(
        node.chat().http.get("/health").json()["journal"] == "unreachable"
        for node in cluster.running
    )


def test_a_restart_of_redis_is_a_pause(cluster, inspect, long_turn, eventually):
    """Redis is killed and comes back with its append-only file: streams pause and go on, no event
    is lost, and nobody is taken for dead.
    """
    session_id, question, turn = long_turn
    follower = Listener(cluster.nodes[2].chat(), session_id)
    follower.wait_for("content_delta", 5)
    condemned = inspect.condemned()
    cluster.redis.kill()
    eventually(lambda: is_missed(cluster))
    cluster.redis.start()
    check_nothing_happened(cluster, inspect, eventually, session_id, question, turn, follower)
    assert inspect.condemned() == condemned


def test_a_redis_that_stands_still_longer_than_a_lease_kills_nobody(
    cluster, inspect, long_turn, eventually
):
    """Redis stands still for longer than a lease, so that all leases run out at once: nobody is
    taken for dead.
    """
    session_id, question, turn = long_turn
    condemned = inspect.condemned()
    cluster.redis.freeze()
    eventually(lambda: is_missed(cluster))
    cluster.redis.thaw()
    check_nothing_happened(cluster, inspect, eventually, session_id, question, turn)
    assert inspect.condemned() == condemned


@pytest.fixture(scope="module")
def impatient(make_cluster):
    """Return two nodes that give a turn up after a second without Redis."""
    cluster = make_cluster(nodes=2, MOCHI_JOURNAL_TIMEOUT_SECONDS="1")
    cluster.start()
    return cluster


def test_without_redis_turns_end_and_sessions_stay(impatient, script, inspect_of, eventually):
    """Redis is away for longer than `MOCHI_JOURNAL_TIMEOUT_SECONDS`: running turns are saved as
    interrupted and end with `SERVICE_UNAVAILABLE`; new ones are refused with 503, which can be
    tried again. Sessions can be read and listed. Once Redis is back, everything works.
    """
    node, other = impatient.nodes
    client = node.chat()
    session_id = client.new_session()
    question = script([f"word{n} " for n in range(2000)], words_per_second=20)
    turn = Listener(client, session_id, {"message": question})
    turn.wait_for("content_delta", 3)
    for each in (node, other):  # what a process has never listed it can't list without Redis
        eventually(lambda each=each: session_id in each.chat().http.get("/sessions").text)
    impatient.redis.kill()
    turn.wait()
    assert turn.names[-2:] == ["error", "done"]
    assert turn.events[-2].data["code"] == "SERVICE_UNAVAILABLE"
    for each in (node, other):
        messages = each.chat().messages(session_id)
        assert [m["role"] for m in messages] == ["user", "assistant"]
        assert messages[1]["interrupted"] is True
        refused = Listener(each.chat(), session_id, {"message": "x"})
        refused.wait()
        assert refused.status == 503, refused.refusal
        assert refused.refusal["details"]["retryable"] is True
        listed = each.chat().http.get("/sessions", params={"limit": 100})
        assert session_id in listed.text
    impatient.redis.start()
    eventually(lambda: inspect_of(impatient).untidy() == [])

    def works(chat):
        again = Listener(chat, session_id, {"message": script("alive")})
        again.wait()
        return again.text == "alive"

    for chat in (node.chat(), other.chat()):
        eventually(lambda chat=chat: works(chat))
    assert len(check_session(impatient, session_id, turn, question=question)) >= 4


def test_redis_may_forget_everything(cluster, inspect, long_turn, eventually, script):
    """Redis loses all it has (FLUSHALL, a new one): running turns reach their listeners and are
    saved; a second turn of their session is refused. Picking such a stream up again finds nothing
    (204), or is told that events are missing; it is never told other ones.
    """
    session_id, question, turn = long_turn
    inspect.redis.flushall()
    refused = Listener(cluster.nodes[2].chat(), session_id, {"message": "x"})
    refused.wait()
    assert (refused.status, refused.refusal["code"]) == (409, "SESSION_BUSY")
    turn.wait()
    assert turn.names[-2:] == ["message_complete", "done"]
    messages = check_session(cluster, session_id, turn, question=question)
    assert len(messages) == 2
    whole = [(event.name, event.data) for event in turn.events]
    for node in cluster.nodes:
        again = Listener(node.chat(), session_id)
        again.wait()
        told = [(event.name, event.data) for event in again.events]
        assert told in ([], whole) or told[-2][0] == "error", told
    eventually(lambda: inspect.untidy() == [])
    for node in cluster.nodes:
        assert node.chat().say(session_id, script("alive"))[-2].name == "message_complete"
    eventually(lambda: inspect.untidy() == [])


def test_sessions_are_listed_again_when_redis_has_forgotten_them(cluster, inspect, eventually):
    """Redis loses the index of sessions: it is made again from the store."""
    made = {cluster.client().new_session() for _ in range(5)}
    inspect.redis.flushall()

    def listed(node):
        answer = node.chat().http.get("/sessions", params={"limit": 200}).json()
        return {each["session_id"] for each in answer["sessions"]}

    for node in cluster.nodes:
        eventually(lambda node=node: made <= listed(node))


def test_a_full_redis_is_a_full_disk(cluster, inspect, long_turn, eventually, script):
    """Redis is full: running turns end with what they had saved, new ones are refused with 507
    `STORAGE_FULL`; nobody is taken for dead. With room again, everything works.
    """
    session_id, question, turn = long_turn
    condemned = inspect.condemned()
    inspect.redis.config_set("maxmemory", "1")
    try:
        turn.wait()
        assert turn.names[-1] == "done"
        assert turn.events[-2].data["code"] == "STORAGE_FULL"
        refused = Listener(cluster.nodes[1].chat(), session_id, {"message": "x"})
        refused.wait()
        assert (refused.status, refused.refusal["code"]) == (507, "STORAGE_FULL")
        living = inspect.living()
    finally:
        inspect.redis.config_set("maxmemory", "0")
    messages = check_session(cluster, session_id, turn, question=question)
    assert messages[1]["interrupted"] is True
    eventually(lambda: inspect.untidy() == [])
    assert inspect.condemned() == condemned
    assert inspect.living() >= living
    for node in cluster.nodes:
        assert node.chat().say(session_id, script("alive"))[-2].name == "message_complete"


def test_a_redis_that_evicts_is_refused_at_the_start(make_cluster):
    """Redis may evict keys (`maxmemory-policy` is not `noeviction`): the server does not start."""
    cluster = make_cluster(nodes=1)
    with cluster.redis.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
    with pytest.raises(pytest.fail.Exception, match="noeviction"):
        cluster.start()
