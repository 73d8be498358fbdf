"""Nodes die: what their turns had said is kept, and told to its end by the others."""

import hashlib
import random
import socket
import threading
import urllib.parse

import psutil
import pytest

from tests.cluster.invariants import check_same_everywhere, check_session
from tests.cluster.nodes import Listener
from tests.unit.sessions_app.attachments import images

ENDLESS = {"stall_after": 3, "stall_seconds": 600}
PIECES = ["Half ", "an ", "answer, "]


@pytest.fixture
def dying_turn(cluster, script):
    """Return (session id, question, listener) of a turn on the first node that never ends."""
    session_id = cluster.nodes[1].chat().new_session()
    question = script([*PIECES, "and more"], **ENDLESS)
    turn = Listener(cluster.nodes[0].chat(), session_id, {"message": question, "detached": True})
    turn.wait_for("content_delta", len(PIECES))
    return session_id, question, turn


def check_sealed_once(cluster, session_id, question, *told):
    """Check that a turn was ended by others, once and for all; return its session's messages."""
    messages = check_session(cluster, session_id, *told, question=question)
    assert [m["role"] for m in messages] == ["user", "assistant"]
    assert messages[1]["interrupted"] is True
    assert messages[1]["content"] == "".join(PIECES).strip()
    whole = check_same_everywhere(cluster.running, session_id, random.Random(3))
    assert whole.count(b"event: error\n") == 1
    assert whole.count(b"event: done\n") == 1
    return messages


def test_a_dead_nodes_turn_is_ended_by_another(cluster, inspect, dying_turn, eventually, script):
    """A node dies in mid-turn (the machine, power): another node seals its turn once the lease has
    run out. Clients that listen through any other node get the text, `error` `TURN_INTERRUPTED` and
    `done`; the session has all that was shown, and takes its next message at once.
    """
    session_id, question, turn = dying_turn
    follower = Listener(cluster.nodes[1].chat(), session_id)
    follower.wait_for("content_delta", len(PIECES))
    cluster.nodes[0].kill()
    follower.wait()
    turn.wait()
    assert turn.broke is not None
    assert follower.events[: len(turn.events)] == turn.events
    assert follower.names[-2:] == ["error", "done"]
    assert follower.events[-2].data["code"] == "TURN_INTERRUPTED"
    check_sealed_once(cluster, session_id, question, turn, follower)
    eventually(lambda: inspect.untidy() == [])
    assert cluster.client().say(session_id, script("alive"))[-2].name == "message_complete"


def test_a_dead_nodes_turn_is_ended_although_nobody_asks(cluster, inspect, dying_turn, eventually):
    """A node dies and nobody listens: its turns are sealed all the same."""
    session_id, question, turn = dying_turn
    cluster.nodes[0].kill()
    eventually(lambda: inspect.untidy() == [])
    turn.wait()
    check_sealed_once(cluster, session_id, question, turn)


@pytest.fixture(scope="module")
def patient(make_cluster):
    """Return two nodes of two web processes each, whose leases do not run out in a test."""
    cluster = make_cluster(nodes=2, flags=("--workers", "2"), MOCHI_LEASE_SECONDS="600")
    cluster.start()
    return cluster


def test_a_dead_worker_is_sealed_at_once(patient, script):
    """One web process of a node dies: its parent says so, and its turns are sealed in less than a
    second, whatever the lease.
    """
    node, other = patient.nodes
    session_id = other.chat().new_session()
    victim = node.server.web_processes[0]
    question = script([*PIECES, "and more"], **ENDLESS)
    turn = Listener(node.server.chat_with(victim), session_id, {"message": question})
    turn.wait_for("content_delta", len(PIECES))
    follower = Listener(other.chat(), session_id)
    follower.wait_for("content_delta", len(PIECES))
    victim.kill()
    psutil.wait_procs([victim], timeout=60)
    follower.wait()
    assert follower.names[-2:] == ["error", "done"]
    turn.wait()
    check_sealed_once(patient, session_id, question, turn, follower)


def test_a_stopped_nodes_turns_are_saved_before_it_goes(cluster, inspect, script, eventually):
    """A node is stopped, as for an update: its turns are saved and ended by itself, and no lease
    has to run out.
    """
    node, other, _ = cluster.nodes
    session_id = other.chat().new_session()
    question = script([*PIECES, "and more"], **ENDLESS)
    turn = Listener(node.chat(), session_id, {"message": question})
    turn.wait_for("content_delta", len(PIECES))
    follower = Listener(other.chat(), session_id)
    follower.wait_for("content_delta", len(PIECES))
    before = inspect.living()
    node.stop()
    assert len(before - inspect.living()) == 1
    assert turn.wait()[-1].name == "done"
    assert follower.wait() == turn.events
    check_session(cluster, session_id, turn, follower, question=question)
    eventually(lambda: inspect.untidy() == [])


SEALING = {
    "before it keeps the owner out": ("redis", rb"j:%b", "request"),
    "after it kept the owner out": ("redis", rb"j:%b", "answer"),
    "before the save": ("store", rb"^PUT [^ ]*/sessions/%b", "request"),
    "after the save": ("store", rb"^PUT [^ ]*/sessions/%b", "answer"),
    "before the journal is ended": ("redis", rb"\"event\":\"done\"", "request"),
    "after the journal is ended": ("redis", rb"\"event\":\"done\"", "answer"),
}


@pytest.mark.parametrize("point", SEALING)
def test_a_sealer_that_dies_leaves_nothing_twice(cluster, inspect, dying_turn, eventually, point):
    """The node that seals dies too, at any step: the next one goes on where it stopped, and nothing
    is there twice.
    """
    session_id, question, turn = dying_turn
    owner, sealer, third = cluster.nodes
    third.kill()
    way, pattern, side = SEALING[point]
    pattern = pattern.replace(b"%b", session_id.encode())
    owner.freeze()  # so that it is not missed before the sealer is watched
    moment = getattr(sealer, way).hold(pattern, side=side)
    owner.kill()
    moment.wait()
    sealer.kill()
    cluster.heal()
    eventually(lambda: inspect.untidy() == [])
    turn.wait()
    check_sealed_once(cluster, session_id, question, turn)


def test_many_sealers_at_once_seal_once(cluster, inspect, dying_turn, eventually):
    """Several nodes find the same death at the same moment: one of them seals."""
    session_id, question, turn = dying_turn
    owner, *others = cluster.nodes
    moments = [node.store.hold(rb"^PUT [^ ]*/sessions/" + session_id.encode()) for node in others]
    owner.kill()
    asked = [Listener(node.chat(), session_id) for node in others]
    for moment in moments:
        moment.wait()
    for releasing in [threading.Thread(target=moment.release) for moment in moments]:
        releasing.start()
    for listener in asked:
        listener.wait()
    eventually(lambda: inspect.untidy() == [])
    turn.wait()
    check_sealed_once(cluster, session_id, question, turn, *asked)


def test_an_upload_of_a_dead_node_is_no_file(cluster):
    """A node dies in the middle of an upload: nobody has the file, and it is sent again through
    another node.
    """
    first, other, _ = cluster.nodes
    picture = images.png(width=3, padding=500_000)
    image = f"sha256:{hashlib.sha256(picture).hexdigest()}"
    url = urllib.parse.urlsplit(first.url)
    with socket.create_connection((url.hostname, url.port)) as client:
        client.sendall(
            b"POST /api/v1/attachments HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n"
            % (url.netloc.encode(), len(picture))
        )
        client.sendall(picture[:400_000])
        first.kill()
    http = other.chat().http
    assert http.get(f"/attachments/{image}").status_code == 404
    assert http.post("/attachments", content=picture).status_code == 201
    assert http.get(f"/attachments/{image}").content == picture
