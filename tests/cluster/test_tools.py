"""Tools run once, and only when allowed, whichever nodes ask, answer, forget and die."""

import threading
import uuid

import pytest

from tests.cluster.invariants import check_session
from tests.cluster.nodes import Listener
from tests.cluster.tools import Notes

CONFIRM = "tool_call_confirmation_required"


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    """Return what the tool wrote down."""
    return Notes(tmp_path_factory.mktemp("notes"))


@pytest.fixture(scope="module")
def three_nodes(make_cluster, notes):
    """Return three nodes that have the tool."""
    return make_cluster(**notes.variables())


@pytest.fixture
def cluster(three_nodes, notes):
    """Return the nodes, well and with the tool."""
    notes.release()
    three_nodes.heal()
    yield three_nodes
    notes.release()


class Asked:
    """A turn on the first node that wants to run the tool once."""

    def __init__(self, cluster, script, policy):
        settings = {"tools": ["note"], "execution_policy": policy}
        self.cluster = cluster
        self.text = uuid.uuid4().hex
        self.session_id = cluster.nodes[1].chat().new_session(tool_settings=settings)
        call = {"tool_call": [{"name": "note", "args": {"text": self.text}}]}
        self.question = script(call, ["The ", "end"], per_request=True)
        self.turn = Listener(
            cluster.nodes[0].chat(), self.session_id, {"message": self.question, "detached": True}
        )

    def answer(self, node, confirmation_id, approved=True):
        body = {"confirmation_id": confirmation_id, "approved": approved}
        return node.chat().http.post(f"/chat/{self.session_id}/confirm-tool", json=body)

    def pending(self, node):
        answer = node.chat().http.get(f"/chat/{self.session_id}/confirmations")
        return [each["confirmation_id"] for each in answer.json()["confirmations"]]


@pytest.fixture
def asked(cluster, script):
    """Return a turn that asks before it runs the tool."""
    return Asked(cluster, script, "always_confirm")


def test_an_approval_is_good_once_anywhere(cluster, asked, notes, inspect, eventually):
    """Two nodes are told at once that a call may run: one takes it, the other answers 409, and the
    call runs once.
    """
    confirmation_id = asked.turn.wait_for(CONFIRM).data["confirmation_id"]
    answers = []
    barrier = threading.Barrier(2)

    def approve(node):
        barrier.wait()
        answers.append(asked.answer(node, confirmation_id).status_code)

    asking = [threading.Thread(target=approve, args=(node,)) for node in cluster.nodes[1:]]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    assert sorted(answers) == [200, 409]
    assert asked.turn.wait()[-2].name == "message_complete"
    assert notes.taken().count(asked.text) == 1
    check_session(cluster, asked.session_id, asked.turn, question=asked.question)
    eventually(lambda: inspect.untidy() == [])


def test_a_question_that_redis_forgot_is_asked_again(cluster, asked, notes, inspect, eventually):
    """Redis forgets a question that waits for its answer: the turn that waits asks it again."""
    confirmation_id = asked.turn.wait_for(CONFIRM).data["confirmation_id"]
    inspect.redis.flushall()
    eventually(lambda: asked.pending(cluster.nodes[1]) == [confirmation_id])
    assert asked.answer(cluster.nodes[2], confirmation_id).status_code == 200
    assert asked.turn.wait()[-2].name == "message_complete"
    assert notes.taken().count(asked.text) == 1


def test_a_call_that_redis_forgot_does_not_run_again(cluster, asked, notes, inspect, eventually):
    """Redis forgets that an approval was used, and the node that runs the call dies: whoever seals
    the turn, and whoever says yes once more, does not run the call again.
    """
    confirmation_id = asked.turn.wait_for(CONFIRM).data["confirmation_id"]
    notes.hold()
    assert asked.answer(cluster.nodes[1], confirmation_id).status_code == 200
    eventually(lambda: notes.taken().count(asked.text) == 1)
    inspect.redis.flushall()
    cluster.nodes[0].kill()
    notes.release()
    for node in cluster.running:
        assert asked.answer(node, confirmation_id).status_code in {404, 409, 410}

    def sealed():
        client = cluster.nodes[2].chat()
        client.http.get(f"/sessions/{asked.session_id}/status")
        return inspect.untidy() == []

    eventually(sealed)
    messages = cluster.nodes[1].chat().messages(asked.session_id)
    assert [m["role"] for m in messages][:3] == ["user", "assistant", "tool"]
    assert "interrupted" in messages[2]["content"]
    again = Listener(cluster.nodes[1].chat(), asked.session_id, {})
    assert again.wait()[-1].name == "done", again.refusal
    assert notes.taken().count(asked.text) == 1


def test_a_call_whose_node_dies_is_not_run_again(cluster, script, notes, inspect, eventually):
    """A node dies while a tool runs: the call has a result that says so, and runs nowhere again."""
    notes.hold()
    asked = Asked(cluster, script, "never_confirm")
    eventually(lambda: notes.taken().count(asked.text) == 1)
    cluster.nodes[0].kill()
    notes.release()
    eventually(lambda: inspect.untidy() == [])
    messages = check_session(cluster, asked.session_id, asked.turn, question=asked.question)
    [result] = [m for m in messages if m["role"] == "tool"]
    assert "interrupted" in result["content"]
    cluster.client().say(asked.session_id)
    assert notes.taken().count(asked.text) == 1
