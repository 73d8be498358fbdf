"""Messages wait for a turn of another node, and are answered whichever node dies."""

from tests.cluster.nodes import Listener

PIECES = ["Half ", "an ", "answer, "]


def queue(node, session_id, message):
    body = {"message": message, "when_busy": "queue"}
    answer = node.chat().http.post(f"/chat/{session_id}", json=body)
    assert answer.status_code == 202, answer.text
    return answer.json()["queued"]["message_id"]


def test_messages_of_a_dead_nodes_turn_are_answered_by_the_others(
    cluster, inspect, script, eventually
):
    """A node dies whose turn others have queued messages for: once its lease has run out, another
    node seals the turn and answers what waits, in its order, though nobody asks.
    """
    first, second, third = cluster.nodes
    session_id = second.chat().new_session()
    question = script([*PIECES, "and more"], stall_after=3, stall_seconds=600)
    turn = Listener(first.chat(), session_id, {"message": question, "detached": True})
    turn.wait_for("content_delta", len(PIECES))
    queued = [
        queue(node, session_id, script(f"Answer {number}."))
        for number, node in enumerate((second, third, first))
    ]

    first.kill()

    def is_answered():
        status = third.chat().http.get(f"/sessions/{session_id}/status").json()
        return status["active_turn"] is None and status["inbox"]["count"] == 0

    eventually(lambda: inspect.untidy() == [])
    eventually(is_answered)
    messages = second.chat().messages(session_id)
    assert [m["message_id"] for m in messages if m["role"] == "user"][1:] == queued
    told = [m["content"] for m in messages if m["role"] == "assistant"]
    assert told[1:] == ["Answer 0.", "Answer 1.", "Answer 2."]
    assert messages[1]["interrupted"] is True
    turn.wait()


def test_a_message_sent_to_any_node_interrupts_the_turn_of_another(cluster, script, eventually):
    first, second, _ = cluster.nodes
    session_id = second.chat().new_session()
    question = script([*PIECES, "and more"], stall_after=3, stall_seconds=600)
    turn = Listener(first.chat(), session_id, {"message": question, "detached": True})
    turn.wait_for("content_delta", len(PIECES))
    body = {"message": script("At once."), "when_busy": "interrupt"}

    answer = second.chat().http.post(f"/chat/{session_id}", json=body)

    assert answer.status_code == 202
    eventually(lambda: second.chat().messages(session_id)[-1]["content"] == "At once.")
    assert turn.wait()[-1].data["queued"] == 1
