"""Questions that outlast their turns: the answer starts the next turn, once, whatever died."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.functional.confirmations.asking import call, code_of

WEEK = 7 * 86_400
DAY = 86_400


@pytest.fixture
def long(patched):
    """Return the variables of a server whose turns wait for a moment only."""
    return {**patched, "MOCHI_E2E_WAITING_SECONDS": "0.3"}


@pytest.fixture
def ask(script, marker):
    """Return how to have a turn ask, and be suspended as nobody answers in time."""

    def asking(person, *calls):
        session_id = person.new_session(approval_timeout_seconds=DAY)
        message = script(*(calls or [call(marker)]), "All is noted.", per_request=True)
        events = person.say(session_id, message)
        assert events[-1].name == "done"
        assert "message_complete" not in [event.name for event in events[-2:]]
        assert person.runs() == []
        return session_id

    return asking


def answers_of(person, session_id):
    return [
        message["content"]
        for message in person.chat.messages(session_id)
        if message["role"] == "assistant" and message["content"]
    ]


def is_idle(person, session_id):
    return person.http.get(f"/sessions/{session_id}/status").json()["active_turn"] is None


def ended(person, session_id, eventually):
    eventually(lambda: answers_of(person, session_id) and is_idle(person, session_id))
    return answers_of(person, session_id)


@pytest.mark.parametrize("approved", [True, False])
def test_an_answer_starts_the_next_turn_by_itself(begin, long, ask, eventually, marker, approved):
    person = begin(**long)
    session_id = ask(person)
    assert is_idle(person, session_id)
    [question] = person.pending(session_id)
    assert person.confirm(session_id, question, approved=approved).status_code == 200
    assert ended(person, session_id, eventually) == ["All is noted."]
    assert person.runs() == ([marker] if approved else [])
    assert [message["role"] for message in person.chat.messages(session_id)] == (
        ["user", "assistant", "tool", "assistant"]
    )


@pytest.mark.parametrize("ending", ["kill", "stop"])
def test_it_does_after_a_restart_and_once(begin, long, ask, eventually, marker, ending):
    person = begin(**long)
    session_id = ask(person)
    [question] = person.pending(session_id)
    getattr(person.server, ending)()
    person = begin("--workers", "2", **long)
    with ThreadPoolExecutor(4) as pool:
        codes = list(pool.map(lambda _: person.confirm(session_id, question).status_code, range(4)))
    assert sorted(codes) == [200, 409, 409, 409]
    assert ended(person, session_id, eventually) == ["All is noted."]
    assert person.runs() == [marker]


def test_an_answer_whose_process_died_is_found_at_the_start(begin, long, ask, eventually, marker):
    person = begin(**long, MOCHI_MAX_ACTIVE_TURNS="1")
    session_id = ask(person)
    [question] = person.pending(session_id)
    # Its only place is taken, so the answer is recorded and no turn can start.
    other = person.new_session()
    with person.chat.stream(other, message="{{wait 600}}") as events:
        next(events)
        assert person.confirm(session_id, question).status_code == 200
        person.server.kill()
    assert person.runs() == []
    person = begin(**long)
    assert ended(person, session_id, eventually) == ["All is noted."]
    assert person.runs() == [marker]


def test_all_calls_are_decided_before_it_goes_on(begin, long, ask, eventually, marker):
    person = begin(**long)
    both = {"tool_call": [{"name": "note", "args": {"text": f"{marker}-{n}"}} for n in (1, 2)]}
    session_id = ask(person, both)
    first, second = person.pending(session_id)
    assert person.confirm(session_id, first).status_code == 200
    assert is_idle(person, session_id)
    assert person.runs() == []
    assert person.confirm(session_id, second, approved=False).status_code == 200
    assert ended(person, session_id, eventually) == ["All is noted."]
    assert person.runs() == [f"{marker}-1"]


def test_messages_wait_for_the_turn_that_goes_on(begin, long, script, eventually, marker):
    person = begin(**long | {"MOCHI_E2E_WAITING_SECONDS": "4"})
    session_id = person.new_session(approval_timeout_seconds=DAY)
    message = script(call(marker), "All is noted.", per_request=True)
    with person.asked(session_id, message) as (question, events):
        body = {"message": script("Second."), "when_busy": "queue"}
        queued = person.http.post(f"/chat/{session_id}", json=body)
        assert queued.status_code == 202, queued.text
        list(events)
    assert is_idle(person, session_id)
    assert len(person.http.get(f"/chat/{session_id}/inbox").json()["messages"]) == 1
    assert person.confirm(session_id, question).status_code == 200
    eventually(lambda: answers_of(person, session_id) == ["All is noted.", "Second."])


def test_an_answer_within_the_time_goes_to_the_turn_that_waits(begin, patched, script, marker):
    person = begin(**patched)
    session_id = person.new_session(approval_timeout_seconds=WEEK)
    message = script(call(marker), "All is noted.", per_request=True)
    with person.asked(session_id, message) as (question, events):
        assert person.confirm(session_id, question).status_code == 200
        names = [event.name for event in events]
    assert names[-2:] == ["message_complete", "done"]
    assert person.runs() == [marker]


def test_the_setting_is_kept_and_bounded(begin, long):
    person = begin(**long)
    session_id = person.new_session(approval_timeout_seconds=WEEK)
    settings = person.http.get(f"/sessions/{session_id}").json()["tool_settings"]
    assert settings["approval_timeout_seconds"] == WEEK
    for wrong in (WEEK + 1, 1, "week"):
        answer = person.http.post(
            "/sessions",
            json={"model": "m", "tool_settings": {"approval_timeout_seconds": wrong}},
        )
        assert code_of(answer) == (422, "VALIDATION_ERROR")
