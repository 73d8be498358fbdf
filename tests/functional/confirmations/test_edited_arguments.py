"""Arguments that a person edited are checked while others go on, and while the server stops."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

TOOL = '''
"""A tool with a set."""

__all__ = ["tag"]


def tag(names: set[str]) -> str:
    """Tag a place.

    Args:
        names: The tags.
    """
    return "done"
'''
MANY = 8
LONGEST_PAUSE = 5.0
"""On a busy machine; a validator that holds the interpreter takes 14 seconds."""

QUADRATIC = {"names": [{str(number): 1} for number in range(6000)]}
"""63 KB of objects, each of which a plain validator compares with all others."""


@pytest.fixture
def waiting(begin, script, tmp_path):
    """Return a client, and sessions of which each waits for an approval."""
    tools = tmp_path / "data" / "tools"
    tools.mkdir()
    (tools / "notes.py").write_text(TOOL)
    person = begin()
    settings = {"tools": ["tag"], "execution_policy": "always_confirm"}
    asked = []
    for number in range(MANY):
        session_id = person.chat.new_session(tool_settings=settings)
        call = {"tool_call": [{"name": "tag", "args": {"names": [str(number)]}}]}
        answer = person.send(session_id, script(call, "Ok.", per_request=True))
        asked.append((session_id, answer.json()["pending_confirmations"][0]))
    return person, asked


def longest_answer(person, session_id, until):
    """Return the longest time of an answer to a small request until that is done."""
    longest = 0.0
    while not until():
        begun = time.monotonic()
        assert person.http.get(f"/sessions/{session_id}/status").status_code == 200
        longest = max(longest, time.monotonic() - begun)
    return longest


def test_edits_that_take_long_to_check_hold_up_nobody(waiting):
    person, asked = waiting
    with ThreadPoolExecutor(MANY) as clients:
        answers = [
            clients.submit(person.confirm, *question, arguments=QUADRATIC) for question in asked
        ]
        longest = longest_answer(
            person, asked[0][0], lambda: all(answer.done() for answer in answers)
        )
    assert {answer.result().status_code for answer in answers} == {422}
    for answer in answers:
        error = answer.result().json()["error"]
        assert error["details"]["field"].startswith("arguments.names")
        assert len(answer.result().content) < 2000
    assert longest < LONGEST_PAUSE
    assert person.confirm(*asked[0]).status_code == 200


def test_a_server_stops_while_edits_are_checked(waiting):
    person, asked = waiting
    with ThreadPoolExecutor(MANY) as clients:
        for question in asked:
            clients.submit(person.confirm, *question, arguments=QUADRATIC)
        begun = time.monotonic()
        person.server.stop()
        assert time.monotonic() - begun < 10
