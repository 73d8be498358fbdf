"""Clocks of nodes differ, and nothing but timestamps does."""

import os
import random
from pathlib import Path

import pytest

from tests.cluster.invariants import check_same_everywhere, check_session
from tests.cluster.nodes import Listener
from tests.functional.processes import ROOT

LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
HOURS = ("+1h", "-1h")


@pytest.fixture(scope="module")
def three_nodes(make_cluster):
    """Return three nodes whose clocks are an hour apart from each other."""
    if LIBRARY is None:
        if os.environ.get("CI"):
            pytest.fail("needs libfaketime")
        pytest.skip("needs libfaketime")
    cluster = make_cluster()
    for node, offset in zip(cluster.nodes, HOURS, strict=False):
        node.start(
            LD_PRELOAD=str(LIBRARY),
            FAKETIME=offset,
            FAKETIME_DONT_FAKE_MONOTONIC="1",
            # Not forked from a process that runs already: it would have the real clock.
            PYTHONPATH=f"{ROOT}{os.pathsep}{Path(__file__).parent / 'clocks'}",
        )
    cluster.start()
    return cluster


def hour_of(node, session_id):
    return node.chat().messages(session_id)[-1]["timestamp"][:13]


def test_clocks_may_differ(cluster, inspect, script, eventually):
    """The clocks of nodes are two hours apart: nothing differs but timestamps. Turns follow each
    other on any node, are told in the same bytes, asked about and cancelled; a dead node's are
    sealed, a living one's are not.
    """
    session_id = cluster.nodes[0].chat().new_session()
    hours = set()
    for node in [*cluster.nodes, *reversed(cluster.nodes)]:
        turn = Listener(node.chat(), session_id, {"message": script(["One ", "answer"])})
        assert turn.wait()[-2].name == "message_complete", turn.refusal
        hours.add(hour_of(node, session_id))
        whole = check_same_everywhere(cluster.nodes, session_id, random.Random(9), points=1)
        assert turn.events[0].id.encode() in whole
    assert len(hours) >= 3
    check_session(cluster, session_id)
    condemned = inspect.condemned()
    for victim in cluster.nodes[:2]:
        question = script(["Half ", "an ", "answer"], stall_after=2, stall_seconds=600)
        turn = Listener(victim.chat(), session_id, {"message": question, "detached": True})
        turn.wait_for("content_delta")
        assert cluster.nodes[2].chat().cancel(session_id).status_code == 200
        turn.wait()
    assert inspect.condemned() == condemned
    question = script(["Half ", "an ", "answer", "."], stall_after=3, stall_seconds=600)
    turn = Listener(cluster.nodes[0].chat(), session_id, {"message": question})
    turn.wait_for("content_delta", 3)
    cluster.nodes[0].kill()
    eventually(lambda: inspect.untidy() == [])
    turn.wait()
    messages = check_session(cluster, session_id, turn, question=question)
    assert messages[-1].get("interrupted") is True, messages[-3:]
