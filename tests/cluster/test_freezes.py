"""Processes stand still, and go on as if nothing had been: what others did meanwhile stays so."""

import random

import pytest

from tests.cluster.invariants import check_same_everywhere, check_session
from tests.cluster.nodes import Listener

PUT = rb"^PUT [^ ]*/sessions/%b"
DELTA = rb"j:%b.*content_delta"
DONE = rb"j:%b.*\"event\":\"done\""
OPEN = rb"EVAL.*j:%b.*mochi:dead:"
POINTS = {
    "before the journal is opened": ("redis", OPEN, 1, "request"),
    "after the journal is opened": ("redis", OPEN, 1, "answer"),
    "before the claim is written": ("store", PUT, 1, "request"),
    "after the claim is written": ("store", PUT, 1, "answer"),
    "before the first words": ("redis", DELTA, 1, "request"),
    "after the first words": ("redis", DELTA, 1, "answer"),
    "before more words": ("redis", DELTA, 4, "request"),
    "after more words": ("redis", DELTA, 4, "answer"),
    "before the answer is saved": ("store", PUT, 2, "request"),
    "after the answer is saved": ("store", PUT, 2, "answer"),
    "before the end is journalled": ("redis", DONE, 1, "request"),
    "after the end is journalled": ("redis", DONE, 1, "answer"),
}


@pytest.mark.parametrize("point", POINTS)
def test_a_frozen_owner_can_not_write_when_it_wakes(cluster, inspect, script, eventually, point):
    """A process stands still for longer than its lease, at any point of its turn, and wakes: others
    have ended its turn, and nothing it writes is taken. Its client's stream breaks off or ends;
    nothing is there twice, and what it had shown is kept. Afterwards it works under a new name.
    """
    way, pattern, nth, side = POINTS[point]
    owner, other, third = cluster.nodes
    session_id = other.chat().new_session()
    pattern = pattern.replace(b"%b", session_id.encode())
    moment = getattr(owner, way).hold(pattern, nth=nth, side=side)
    question = script([f"word{n} " for n in range(12)], words_per_second=40)
    turn = Listener(owner.chat(), session_id, {"message": question, "detached": True})
    moment.wait()
    living = inspect.living()
    owner.freeze()
    eventually(lambda: inspect.living() < living)
    eventually(lambda: session_id not in str(inspect.untidy()))
    moment.release()
    owner.thaw()
    turn.wait()
    left = Listener(third.chat(), session_id)
    left.wait()
    eventually(lambda: inspect.untidy() == [])
    messages = check_session(cluster, session_id, turn, left, question=question)
    if messages and left.events:
        check_same_everywhere(cluster.nodes, session_id, random.Random(5))
    for node in cluster.nodes:
        assert node.chat().say(session_id, script("alive"))[-2].name == "message_complete"
    eventually(lambda: inspect.untidy() == [])


@pytest.fixture(scope="module")
def patient(make_cluster):
    """Return two nodes whose leases are much longer than any pause of a test."""
    cluster = make_cluster(nodes=2, MOCHI_LEASE_SECONDS="60")
    cluster.start()
    return cluster


def test_a_short_pause_costs_nothing(patient, script):
    """A process stands still for less than its lease: its streams pause, and go on."""
    owner, other = patient.nodes
    session_id = other.chat().new_session()
    question = script([f"word{n} " for n in range(60)], words_per_second=60)
    turn = Listener(owner.chat(), session_id, {"message": question})
    follower = Listener(other.chat(), session_id)
    turn.wait_for("content_delta", 5)
    owner.freeze()
    refused = Listener(other.chat(), session_id, {"message": "x"})
    refused.wait()
    assert refused.refusal["code"] == "SESSION_BUSY"
    owner.thaw()
    assert turn.wait()[-2].name == "message_complete"
    if follower.wait():  # it may have asked before there was anything
        assert follower.events == turn.events
    check_session(patient, session_id, turn, question=question)
