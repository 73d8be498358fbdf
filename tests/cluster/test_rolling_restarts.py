"""Nodes are stopped and started one after the other: who follows a turn sees nothing of it."""

import pytest

from tests.cluster.invariants import check_stream
from tests.cluster.nodes import Listener

WORDS = [f"word{number} " for number in range(30)]


@pytest.fixture(scope="module")
def restarting(make_cluster):
    """Return three nodes that go on with each other's turns."""
    return make_cluster(MOCHI_ON_CRASH="continue", MOCHI_SHUTDOWN_GRACE_SECONDS="0")


def test_who_follows_a_turn_sees_nothing_of_a_rolling_restart(restarting, script):
    restarting.heal()
    owner, other, _ = restarting.nodes
    session_id = other.chat().new_session()
    body = {"message": script(WORDS, words_per_second=5), "detached": True}
    turn = Listener(owner.chat(), session_id, body)
    turn.wait_for("content_delta", 3)
    follower = Listener(other.chat(), session_id)
    follower.wait_for("content_delta", 3)

    owner.stop()
    seen = turn.wait()
    assert not {"error", "cancelled", "done"} & set(turn.names)
    follower.wait_for("turn_resumed")  # through another node, in the same stream
    restarting.start()
    for node in restarting.nodes[1:]:
        node.stop()
        restarting.start()

    client = restarting.client()
    while "done" not in [event.name for event in seen]:
        again = Listener(client, session_id, after=seen[-1].id)
        seen += again.wait()
        assert again.status == 200, (again.status, again.refusal)
    check_stream(seen)
    names = [event.name for event in seen]
    assert names[-2:] == ["message_complete", "done"]
    assert not {"error", "cancelled"} & set(names)
    reasons = {event.data["reason"] for event in seen if event.name == "turn_resumed"}
    assert reasons == {"server_stopped"}
    told = follower.wait()
    assert told == seen[: len(told)]
    asked, answer = client.messages(session_id)
    assert asked["role"] == "user"
    assert "interrupted" not in answer
    text = "".join(event.data["content"] for event in seen if event.name == "content_delta")
    assert text.strip() == answer["content"] == seen[-2].data["content"]
