"""Two web processes that share no more than session files and Redis."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.functional.confirmations.asking import call, code_of, only
from tests.functional.confirmations.conftest import PATCHED, Person
from tests.functional.conftest import names_of

KEY = "0123456789abcdef0123456789abcdef"
IN_REDIS = ("turns", "signals", "confirmations", "keys", "ephemeral", "executions.jsonl")


@pytest.fixture(scope="module")
def server(start_once, redis_server):
    """Return a server whose turns look for answers only when they are told."""
    return start_once(
        *("--workers", "2"),
        **PATCHED,
        MOCHI_E2E_LOOK_AGAIN_SECONDS="3600",
        MOCHI_JOURNAL_URL=redis_server,
        MOCHI_SECRET_KEY=KEY,
        MOCHI_LEASE_SECONDS="60",  # a busy machine is no dead one
    )


@pytest.fixture
def people(server):
    """Return a client of each of the two processes."""
    first, second = server.web_processes
    return Person(server, server.chat_with(first)), Person(server, server.chat_with(second))


def test_an_answer_reaches_a_turn_of_the_other_process_at_once(people, script, server):
    for number, (person, elsewhere) in enumerate([people, people[::-1]] * 3):
        session_id = person.new_session()
        message = script(call(f"told {number}"), "Done.", per_request=True)
        with person.asked(session_id, message) as (question, events):
            assert [each["confirmation_id"] for each in elsewhere.pending(session_id)] == [
                question["confirmation_id"]
            ]
            assert elsewhere.confirm(session_id, question).status_code == 200
            assert only(list(events), "tool_result")["success"]
    state = server.data_dir / ".mochi"
    assert [name for name in IN_REDIS if (state / name).exists()] == []


def test_of_answers_through_both_processes_at_once_one_counts(people, script):
    person, _ = people
    session_id = person.new_session()
    with person.asked(session_id, script(call("once"), "Ok.", per_request=True)) as (
        question,
        events,
    ):
        with ThreadPoolExecutor(10) as pool:
            answers = list(
                pool.map(lambda number: people[number % 2].confirm(session_id, question), range(10))
            )
        result = only(list(events), "tool_result")
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 9
    refused = [code_of(answer) for answer in answers if answer.status_code == 409]
    assert set(refused) == {(409, "CONFIRMATION_ALREADY_DECIDED")}
    assert result["success"]
    assert person.runs().count("once") == 1


def test_a_turn_is_cancelled_through_the_other_process(people, script):
    for person, elsewhere in (people, people[::-1]):
        session_id = person.new_session()
        message = script(*["word "] * 1000, words_per_second=5)
        with person.chat.stream(session_id, message=message) as events:
            person.until(events, "content_delta")
            reply = elsewhere.chat.cancel(session_id)
            assert reply.status_code == 200, reply.text
            assert names_of(list(events))[-2:] == ["cancelled", "done"]
        assert person.chat.messages(session_id)[-1]["cancelled"] is True


def test_equal_requests_through_both_processes_are_one_turn(people, script):
    person, _ = people
    session_id = person.new_session()
    body = {"message": script(["a ", "b ", "c "], words_per_second=20)}

    def post(number):
        chat = people[number % 2].chat
        headers = {"Idempotency-Key": "shared"}
        with chat.http.stream(
            "POST", f"/chat/{session_id}/stream", json=body, headers=headers
        ) as answer:
            return answer.status_code, answer.read()

    with ThreadPoolExecutor(6) as pool:
        answers = set(pool.map(post, range(6)))
    [(status, received)] = answers
    assert status == 200
    assert received.count(b"event: done") == 1
    assert {post(0), post(1)} == answers  # also when it is over
    assert [each["role"] for each in person.chat.messages(session_id)] == ["user", "assistant"]


def test_a_stream_is_picked_up_through_the_other_process(people, script):
    person, elsewhere = people
    session_id = person.new_session()
    events = person.say(session_id, script("One two three"))
    again = elsewhere.chat.reattach(session_id, after=events[0].id)
    assert again == events[1:]


def test_calls_through_both_processes_are_in_one_log(people, script):
    made = set()
    for number, person in enumerate(people):
        session_id = person.new_session(execution_policy="never_confirm")
        person.say(session_id, script(call(f"logged {number}"), "Ok.", per_request=True))
        made.add(session_id)
        logged(person)  # it has written its own before it answers
    for person in people:
        assert made <= logged(person)


def logged(person):
    """Return the sessions of the calls that a process lists."""
    answer = person.http.get("/tools/executions")
    assert answer.status_code == 200, answer.text
    return {call["session_id"] for call in answer.json()["executions"]}
