"""What one node does, every node shows: a client need not know that there are several."""

import random

from tests.cluster.invariants import check_same_everywhere, check_session, check_stream
from tests.cluster.nodes import Listener
from tests.functional.tabs import Tab
from tests.unit.sessions_app.attachments import images

PICTURE = images.png(padding=500_000)


def test_each_request_may_go_to_another_node(cluster, script):
    client = cluster.client()
    session_id = client.new_session()
    for number in range(6):
        events = client.say(session_id, script(f"answer {number}"))
        check_stream(events)
        assert events[-2].data["content"] == f"answer {number}"
    messages = check_session(cluster, session_id)
    assert [m["content"] for m in messages[1::2]] == [f"answer {number}" for number in range(6)]


def test_a_turn_is_told_in_the_same_bytes_by_every_node(cluster, script):
    first, *others = cluster.nodes
    session_id = first.chat().new_session()
    pieces = [f"word{number} é😀 " for number in range(60)]
    turn = Listener(first.chat(), session_id, {"message": script(pieces, words_per_second=100)})
    turn.wait_for("content_delta")
    followers = [Listener(node.chat(), session_id) for node in others]
    events = turn.wait()
    assert turn.text == "".join(pieces).rstrip()
    for follower in followers:
        assert follower.wait() == events
    check_same_everywhere(cluster.nodes, session_id, random.Random(17))


def test_a_turn_is_cancelled_through_any_node(cluster, script):
    client = cluster.client()
    session_id = client.new_session()
    for _ in cluster.nodes:
        message = script(["Half ", "an ", "answer"], stall_after=2, stall_seconds=600)
        turn = Listener(client, session_id, {"message": message})
        turn.wait_for("content_delta")
        answer = client.cancel(session_id)
        assert answer.status_code == 200, answer.text
        assert answer.json()["partial_content"].strip() in {"Half", "Half an"}
        turn.wait()
        assert turn.names[-2:] == ["cancelled", "done"]
    check_session(cluster, session_id, turn)


def test_a_session_runs_one_turn_at_a_time_wherever_it_is_asked(cluster, script):
    client = cluster.client()
    session_id = client.new_session()
    message = script(["Half ", "an ", "answer"], stall_after=2, stall_seconds=600)
    turn = Listener(client, session_id, {"message": message, "detached": True})
    turn.wait_for("content_delta")
    for node in cluster.nodes:
        refused = Listener(node.chat(), session_id, {"message": "x"})
        refused.wait()
        assert (refused.status, refused.refusal["code"]) == (409, "SESSION_BUSY")
    client.cancel(session_id)
    turn.wait()


def test_a_request_with_a_key_is_carried_out_once_wherever_it_is_repeated(cluster, script):
    session_id = cluster.nodes[0].chat().new_session()
    body = {"message": script(["one ", "two ", "three"], words_per_second=20)}
    told = [Listener(node.chat(), session_id, body, key="the-same") for node in cluster.nodes]
    streams = [each.wait() for each in told]
    assert streams == [streams[0]] * 3
    assert told[0].text == "one two three"
    assert len(check_session(cluster, session_id, *told, question=body["message"])) == 2


def test_each_node_lists_what_any_of_them_keeps(cluster):
    client = cluster.client()
    made = {client.new_session() for _ in range(6)}
    gone = made.pop()
    assert client.http.delete(f"/sessions/{gone}").status_code in {200, 204}
    for node in cluster.nodes:
        listed = node.chat().http.get("/sessions", params={"limit": 200}).json()["sessions"]
        ids = {each["session_id"] for each in listed}
        assert made <= ids
        assert gone not in ids
        assert node.chat().http.get(f"/sessions/{gone}").status_code == 404


def test_nothing_is_left_of_turns_that_ended(cluster, inspect, script, eventually):
    client = cluster.client()
    for _ in range(3):
        client.say(client.new_session(), script("done"))
    eventually(lambda: inspect.untidy() == [])


def test_an_image_goes_to_one_node_and_is_seen_by_another(cluster):
    first, second, third = cluster.nodes
    kept = first.chat().http.post("/attachments", content=PICTURE)
    assert kept.status_code == 201, kept.text
    chat, image = second.chat(), kept.json()["id"]
    session_id = chat.new_session(model="scripted-vision")
    answer = chat.http.post(f"/chat/{session_id}", json={"attachments": [image]})
    assert image in answer.json()["message"]["content"]
    assert third.chat().http.get(f"/attachments/{image}").content == PICTURE
    assert third.chat().http.post("/attachments", content=PICTURE).status_code == 200


def test_tabs_at_every_node_agree_through_changes_alone(cluster, script):
    tabs = [Tab(node.chat()) for node in cluster.nodes]
    client = cluster.client()
    session_id = client.new_session()

    def all_show(**wanted):
        for tab in tabs:
            tab.wait_until(lambda tab: wanted.items() <= tab.sessions.get(session_id, {}).items())

    all_show(state="idle")
    client.http.patch(f"/sessions/{session_id}", json={"title": "The sea"}).raise_for_status()
    all_show(title="The sea")
    message = script(["Half ", "an answer"], stall_after=1, stall_seconds=600)
    turn = Listener(client, session_id, {"message": message, "detached": True})
    turn.wait_for("content_delta")
    all_show(state="running")
    tabs[0].leave()
    assert client.cancel(session_id).status_code == 200
    turn.wait()
    tabs[0] = Tab(cluster.nodes[1].chat(), after=tabs[0].last_id)
    for tab in tabs:
        tab.wait_until(lambda tab: "turn_ended" in tab.names)
        tab.wait_until(lambda tab: tab.state_of(session_id) in (None, "idle"))
    assert "reset" not in tabs[0].names
    client.http.delete(f"/sessions/{session_id}").raise_for_status()
    for tab in tabs:
        tab.wait_until(lambda tab: tab.names[-1] == "session_deleted")
        assert session_id not in tab.sessions
        tab.leave()
