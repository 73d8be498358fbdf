"""Owners on several nodes: what is whose on each of them, and after one of them has died."""

import hashlib
import time

import httpx
import pytest

from tests.cluster.invariants import check_one_answer, check_stream
from tests.cluster.nodes import ADMIN, TOKEN, Listener
from tests.unit.sessions_app.attachments import images

PIECES = ["Half ", "an ", "answer, "]
SECRET = "the-word-that-only-its-owner-may-read"
REVOKED_SECONDS = 2.0
"""The time within which each node has heard of a revoked key."""
SLACK_SECONDS = 8.0
"""What a busy machine may add."""


@pytest.fixture(scope="module")
def three_nodes(make_cluster):
    cluster = make_cluster(MOCHI_API_TOKEN=TOKEN)
    cluster.start()
    return cluster


@pytest.fixture(scope="module")
def continuing(make_cluster):
    cluster = make_cluster(MOCHI_API_TOKEN=TOKEN, MOCHI_ON_CRASH="continue")
    cluster.start()
    return cluster


@pytest.fixture(scope="module")
def keys(three_nodes):
    """Return the headers by which clients act for owners, on every node."""
    return three_nodes.keys_of("anna", "bob") | {"default": ADMIN}


def as_owner(node, headers):
    return node.server.chat(headers=headers)


def reads_of(session_id, image):
    """Return requests that would show something of a session, with its real ids."""
    return [
        ("GET", f"/sessions/{session_id}", None),
        ("GET", f"/sessions/{session_id}/messages", None),
        ("GET", f"/sessions/{session_id}/status", None),
        ("GET", f"/sessions/{session_id}/context", None),
        ("GET", f"/sessions/{session_id}/summary", None),
        ("GET", f"/sessions/{session_id}/export", None),
        ("GET", f"/sessions/{session_id}/agents", None),
        ("GET", f"/chat/{session_id}/stream", None),
        ("GET", f"/chat/{session_id}/inbox", None),
        ("GET", f"/attachments/{image}", None),
        ("POST", f"/chat/{session_id}", {"message": "Hello!"}),
        ("POST", f"/chat/{session_id}/cancel", None),
        ("POST", f"/sessions/{session_id}/fork", {}),
        ("PATCH", f"/sessions/{session_id}", {"title": "mine now"}),
        ("DELETE", f"/sessions/{session_id}", None),
    ]


def test_nothing_of_an_owner_is_on_any_node_for_another(cluster, keys, script):
    """Whatever id is named, on whichever node, is not there, in words that tell nothing."""
    first, *_ = cluster.nodes
    anna = as_owner(first, keys["anna"])
    picture = images.png(width=7)
    image = f"sha256:{hashlib.sha256(picture).hexdigest()}"
    assert anna.http.post("/attachments", content=picture).status_code == 201
    session_id = anna.new_session(title=SECRET)
    anna.say(session_id, script(SECRET))
    before = anna.messages(session_id)
    for node in cluster.nodes:
        for who in ("bob", "default"):
            other = as_owner(node, keys[who])
            unknown = other.http.get("/sessions/ffffffffff").text
            for method, path, body in reads_of(session_id, image):
                answer = other.http.request(method, path, json=body)
                assert answer.status_code == 404, (node, who, method, path, answer.text)
                assert SECRET not in answer.text
            same = other.http.get(f"/sessions/{session_id}").text
            assert (
                same.replace(session_id, "ffffffffff").partition("request_id")[0]
                == (unknown.partition("request_id")[0])
            )
            for path in ("/sessions", f"/search?q={SECRET}", "/usage"):
                answer = other.http.get(path)
                assert answer.status_code == 200, (path, answer.text)
                assert session_id not in answer.text
                assert SECRET not in answer.json().get("sessions", "")
        mine = as_owner(node, keys["anna"])
        assert mine.messages(session_id) == before
        assert mine.http.get(f"/attachments/{image}").content == picture


def test_one_idempotency_key_of_two_owners_is_two_turns(cluster, keys, script):
    headers = {"Idempotency-Key": "the same for both, as clients can choose them"}
    body = {"message": script("An answer."), "model": "qwen3:14b"}
    made = {}
    for owner, node in zip(("anna", "bob"), cluster.nodes, strict=False):
        answer = as_owner(node, keys[owner]).http.post("/chat", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        made[owner] = answer.json()["session_id"]
    assert made["anna"] != made["bob"]
    for owner, session_id in made.items():
        again = as_owner(cluster.nodes[2], keys[owner]).http.post(
            "/chat", json=body, headers=headers
        )
        assert again.json()["session_id"] == session_id
        assert len(as_owner(cluster.nodes[2], keys[owner]).messages(session_id)) == 2


def begin(cluster, node, keys, script, **options):
    """Begin a turn of each owner on one node; return owner, session and listener of each."""
    turns = []
    for owner in ("anna", "bob", "default"):
        session_id = as_owner(cluster.nodes[1], keys[owner]).new_session()
        words = [f"word{number} " for number in range(40)]
        question = script([f"{owner} ", *PIECES, "and more ", *words], **options)
        body = {"message": question, "detached": True}
        turn = Listener(as_owner(node, keys[owner]), session_id, body)
        turn.wait_for("content_delta", len(PIECES) + 1)
        turns.append((owner, session_id, turn))
    return turns


def test_turns_of_all_owners_are_sealed_although_nobody_asks(
    cluster, keys, inspect, script, eventually
):
    """A node dies with turns of several owners, whom no other node has loaded: each is sealed
    within the lease, and nobody sees anything of another.
    """
    turns = begin(cluster, cluster.nodes[0], keys, script, stall_after=4, stall_seconds=600)
    for node in cluster.nodes[1:]:
        node.stop()
    cluster.start()

    cluster.nodes[0].kill()

    eventually(lambda: inspect.untidy() == [])
    for owner, session_id, turn in turns:
        turn.wait()
        for node in cluster.running:
            messages = as_owner(node, keys[owner]).messages(session_id)
            check_one_answer(messages)
            assert messages[-1]["interrupted"] is True
            assert messages[-1]["content"].startswith(f"{owner} Half an answer,")
    cluster.heal()


def test_turns_of_all_owners_go_on_although_nobody_asks(continuing, inspect_of, script, eventually):
    """The same with `MOCHI_ON_CRASH=continue`: each turn goes on where it was, once."""
    keys = continuing.keys_of("anna", "bob") | {"default": ADMIN}
    inspect = inspect_of(continuing)
    turns = begin(
        continuing, continuing.nodes[0], keys, script, words_per_second=10, per_request=True
    )

    continuing.nodes[0].kill()

    eventually(lambda: inspect.untidy() == [])
    for owner, session_id, turn in turns:
        turn.wait()
        told = as_owner(continuing.nodes[1], keys[owner]).reattach(session_id)
        assert told is not None
        check_stream(told)
        assert [event.name for event in told].count("turn_resumed") == 1
        assert told[: len(turn.events)] == turn.events
        messages = as_owner(continuing.nodes[2], keys[owner]).messages(session_id)
        assert [message["role"] for message in messages] == ["user", "assistant"]
        assert "interrupted" not in messages[1]
        assert messages[1]["content"].startswith(f"{owner} Half an answer,")
    continuing.heal()


def test_messages_of_an_owner_that_wait_are_answered_after_a_death(
    cluster, keys, inspect, script, eventually
):
    [(_, session_id, turn), *_] = begin(
        cluster, cluster.nodes[0], keys, script, stall_after=4, stall_seconds=600
    )
    anna = as_owner(cluster.nodes[1], keys["anna"])
    body = {"message": script("At last."), "when_busy": "queue"}
    assert anna.http.post(f"/chat/{session_id}", json=body).status_code == 202

    cluster.nodes[0].kill()

    eventually(lambda: anna.messages(session_id)[-1]["content"] == "At last.")
    eventually(lambda: inspect.untidy() == [])
    turn.wait()
    cluster.heal()


@pytest.mark.parametrize("keeps", [True, False], ids=["its turns go on", "its turns end"])
def test_a_revoked_key_is_refused_by_all_nodes_and_ends_its_streams(
    cluster, script, eventually, keeps
):
    """A key is revoked through one node: within two seconds each node refuses it, and its streams
    end; so do its turns, unless they may go on.
    """
    headers = cluster.keys_of("carla")["carla"]
    key_id = headers["Authorization"].split("_")[1]
    session_id = as_owner(cluster.nodes[1], headers).new_session()
    question = script([*PIECES, "and more"], stall_after=3, stall_seconds=600)
    body = {"message": question, "detached": True}
    turn = Listener(as_owner(cluster.nodes[0], headers), session_id, body)
    turn.wait_for("content_delta", len(PIECES))
    follower = Listener(as_owner(cluster.nodes[1], headers), session_id)
    follower.wait_for("content_delta", len(PIECES))
    clients = [as_owner(node, headers) for node in cluster.nodes]

    admin = as_owner(cluster.nodes[2], ADMIN).http
    answer = admin.delete(f"/keys/{key_id}", params={"keep_turns": keeps})
    assert answer.status_code == 200, answer.text
    revoked_at = time.monotonic()

    for client in clients:
        eventually(lambda client=client: client.http.get("/sessions").status_code == 401)
    assert time.monotonic() - revoked_at < REVOKED_SECONDS + SLACK_SECONDS
    for listener in (turn, follower):
        last = listener.wait()[-1]
        # Another node may cancel the turn before this one has heard of it.
        is_cancelled = not keeps and listener.names[-2:] == ["cancelled", "done"]
        assert is_cancelled or last.data["code"] == "UNAUTHENTICATED", listener.events
    mine = as_owner(cluster.nodes[2], cluster.keys_of("carla")["carla"])
    path = f"/sessions/{session_id}/status"
    if keeps:
        assert mine.http.get(path).json()["active_turn"] is not None
        assert mine.cancel(session_id).status_code == 200
    eventually(lambda: mine.http.get(path).json()["active_turn"] is None)
    assert mine.messages(session_id)[-1]["content"].startswith("Half an answer,")


def test_a_key_from_nobody_is_refused_by_every_node(cluster, keys):
    for node in cluster.nodes:
        for headers in ({}, {"Authorization": "Bearer mochi_k00000000_" + "x" * 43}):
            assert httpx.get(f"{node.url}/api/v1/sessions", headers=headers).status_code == 401
