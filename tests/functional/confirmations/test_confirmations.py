"""Nothing runs that nobody approved, and what was approved runs once: over HTTP, in any worker."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.functional.confirmations.asking import CONFIRM, SUSPENDED, call, code_of, only

# The flow


def test_an_approved_call_runs_and_the_turn_goes_on(person, script, marker):
    session_id = person.new_session()
    message = script(call(marker), "All is noted.", per_request=True)
    with person.chat.stream(session_id, message=message) as events:
        seen = person.until(events, "status")
        question = only(seen, CONFIRM)
        assert question["tool_name"] == "note"
        assert question["arguments"] == {"text": marker}
        assert question["call_index"] == 0
        [waiting] = person.pending(session_id)
        assert {key: waiting[key] for key in question} == question
        assert person.http.get(f"/sessions/{session_id}/status").json()["active_turn"]["state"] == (
            SUSPENDED
        )
        assert marker not in person.runs()
        answer = person.confirm(session_id, question)
        assert answer.status_code == 200, answer.text
        assert answer.json() | {"decided_at": ""} == {
            "confirmation_id": question["confirmation_id"],
            "approved": True,
            "tool_name": "note",
            "arguments": {"text": marker},
            "decided_at": "",
        }
        seen += list(events)
    names = [event.name for event in seen]
    assert names[:5] == [
        "turn_started",
        CONFIRM,
        "status",
        "tool_result",
        "tool_continuation_start",
    ]
    assert set(names[5:-2]) == {"content_delta"}
    assert names[-2:] == ["message_complete", "done"]
    result = only(seen, "tool_result")
    assert (result["success"], result["result"]) == (True, f"noted {marker}")
    assert result["tool_call_id"] == question["tool_call_id"]
    assert person.runs().count(marker) == 1
    assert [message["role"] for message in person.chat.messages(session_id)] == (
        ["user", "assistant", "tool", "assistant"]
    )
    assert person.pending(session_id) == []


def test_a_denied_call_does_not_run_and_the_model_is_told(person, script, marker):
    session_id = person.new_session()
    message = script(call(marker), "Then not.", per_request=True)
    with person.asked(session_id, message) as (question, events):
        answer = person.confirm(session_id, question, approved=False)
        assert (answer.status_code, answer.json()["approved"]) == (200, False)
        seen = list(events)
    result = only(seen, "tool_result")
    assert (result["success"], result["error_code"]) == (False, "TOOL_EXECUTION_DENIED")
    assert only(seen, "message_complete")["content"] == "Then not."
    assert marker not in person.runs()
    assert code_of(person.confirm(session_id, question)) == (409, "CONFIRMATION_ALREADY_DECIDED")


def test_an_approval_reaches_a_turn_of_another_worker_at_once(server, person_at, script):
    person, elsewhere = map(person_at, server.web_processes)
    session_id = person.new_session()
    for number in range(20):
        message = script(call(f"fast {number}"), "Done.", per_request=True)
        with person.asked(session_id, message) as (question, events):
            assert elsewhere.confirm(session_id, question).status_code == 200
            assert person.until(events, "tool_result")[-1].data["success"]
            list(events)


def test_a_call_nobody_answers_is_denied_when_the_time_is_over(begin, script, marker):
    person = begin(MOCHI_TOOL_CONFIRMATION_TIMEOUT_SECONDS="1")
    session_id = person.new_session()
    message = script(call(marker), "Nobody was there.", per_request=True)
    with person.asked(session_id, message) as (question, events):
        result = person.until(events, "tool_result")[-1].data
        assert (result["success"], result["error_code"]) == (False, "TOOL_CONFIRMATION_TIMEOUT")
        assert code_of(person.confirm(session_id, question)) == (408, "TOOL_CONFIRMATION_TIMEOUT")
        assert only(list(events), "message_complete")["content"] == "Nobody was there."
    assert code_of(person.confirm(session_id, question)) == (408, "TOOL_CONFIRMATION_TIMEOUT")
    assert person.pending(session_id) == []
    assert person.runs() == []


def test_the_tool_runs_with_the_arguments_that_the_person_made_of_it(person, script, marker):
    session_id = person.new_session()
    edited = {"text": f"edited {marker}"}
    with person.asked(session_id, script(call(marker), "Ok.", per_request=True)) as (
        question,
        events,
    ):
        answer = person.confirm(session_id, question, arguments=edited)
        assert answer.json()["arguments"] == edited
        seen = list(events)
    assert only(seen, "tool_result")["result"] == f"noted edited {marker}"
    [executed] = only(seen, "message_complete")["tool_calls"]
    assert executed["arguments"] == edited
    assert f"edited {marker}" in person.runs()
    assert marker not in person.runs()


def test_edited_arguments_of_another_shape_are_refused_and_the_call_still_waits(
    person, script, marker
):
    session_id = person.new_session()
    edited = {"text": f"edited {marker}"}
    with person.asked(session_id, script(call(marker), "Ok.", per_request=True)) as (
        question,
        events,
    ):
        for wrong, field in (({"text": [marker]}, "arguments.text"), ({}, "arguments")):
            refused = person.confirm(session_id, question, arguments=wrong)
            assert code_of(refused) == (422, "VALIDATION_ERROR")
            assert refused.json()["error"]["details"]["field"] == field
        assert len(person.pending(session_id)) == 1
        assert person.confirm(session_id, question, arguments=edited).status_code == 200
        seen = list(events)
    assert only(seen, "tool_result")["success"] is True
    assert f"edited {marker}" in person.runs()


# One answer, for one run


def test_of_fifty_answers_at_once_one_counts(person, script, marker):
    session_id = person.new_session()
    with person.asked(session_id, script(call(marker), "Once.", per_request=True)) as (
        question,
        events,
    ):
        with ThreadPoolExecutor(50) as pool:
            answers = list(pool.map(lambda _: person.confirm(session_id, question), range(50)))
        seen = list(events)
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses == [200] + [409] * 49
    assert only(seen, "tool_result")["success"]
    assert person.runs().count(marker) == 1


def test_an_approval_is_for_one_call_and_not_for_the_next_like_it(person, script, marker):
    session_id = person.new_session()
    message = script(call(marker), call(marker), "Done.", per_request=True)
    with person.asked(session_id, message) as (first, events):
        person.confirm(session_id, first)
        second = person.until(events, CONFIRM)[-1].data
        assert second["confirmation_id"] != first["confirmation_id"]
        assert code_of(person.confirm(session_id, first)) == (409, "CONFIRMATION_ALREADY_DECIDED")
        assert person.runs().count(marker) == 1
        person.confirm(session_id, second, approved=False)
        list(events)
    assert person.runs().count(marker) == 1


def test_of_two_equal_calls_in_one_message_each_has_its_own_answer(person, script, marker):
    session_id = person.new_session()
    twice = {"tool_call": call(marker)["tool_call"] * 2}
    with person.chat.stream(session_id, message=script(twice, "Ok.", per_request=True)) as events:
        seen = person.until(events, "status")
        first, second = [event.data for event in seen if event.name == CONFIRM]
        assert (first["call_index"], second["call_index"]) == (0, 1)
        person.confirm(session_id, second)
        person.confirm(session_id, first, approved=False)
        seen = list(events)
    results = [event.data for event in seen if event.name == "tool_result"]
    assert [result["success"] for result in results] == [False, True]
    assert person.runs().count(marker) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"approved": "true"},
        {"approved": "false"},
        {"approved": 1},
        {"approved": None},
        {"approved": [True]},
        {},
        {"approved": True, "arguments": [1]},
        {"approved": True, "arguments": "{}"},
        {"approved": True, "aproved": True},
        {"approved": True, "confirmation_id": None},
        {"approved": True, "confirmation_id": ["conf_"]},
        {"approved": True, "confirmation_id": "x" * 10_000},
        [],
        "true",
    ],
)
def test_an_answer_of_another_shape_decides_nothing(person, script, marker, body):
    session_id = person.new_session()
    with person.asked(session_id, script(call(marker), "Ok.", per_request=True)) as (question, _):
        if isinstance(body, dict):
            body = {"confirmation_id": question["confirmation_id"], **body}
        answer = person.http.post(f"/chat/{session_id}/confirm-tool", json=body)
        assert code_of(answer) == (422, "VALIDATION_ERROR")
        assert [waiting["confirmation_id"] for waiting in person.pending(session_id)] == [
            question["confirmation_id"]
        ]
        assert marker not in person.runs()


@pytest.mark.parametrize(
    "body",
    [
        '{"confirmation_id": "%s", "approved": false, "approved": true}',
        '{"confirmation_id": "%s", "approved": true, "arguments": {"text": NaN}}',
        '{"confirmation_id": "%s", "approved": true, "arguments": {"text": "\\ud800"}}',
        '{"confirmation_id": "%s", "approved": true',
    ],
)
def test_json_that_could_mean_two_things_decides_nothing(person, script, marker, body):
    session_id = person.new_session()
    with person.asked(session_id, script(call(marker), "Ok.", per_request=True)) as (question, _):
        answer = person.http.post(
            f"/chat/{session_id}/confirm-tool",
            content=body % question["confirmation_id"],
            headers={"Content-Type": "application/json"},
        )
        assert answer.status_code in {400, 422}, answer.text
        assert len(person.pending(session_id)) == 1
    assert marker not in person.runs()


def test_an_answer_to_another_sessions_question_is_not_found(person, script, marker):
    session_id, other = person.new_session(), person.new_session()
    with person.asked(session_id, script(call(marker), "Ok.", per_request=True)) as (question, _):
        assert code_of(person.confirm(other, question)) == (404, "CONFIRMATION_NOT_FOUND")
        assert code_of(person.confirm("0000000000", question)) == (404, "SESSION_NOT_FOUND")
        assert person.pending(other) == []
        assert len(person.pending(session_id)) == 1
        for confirmation_id in (
            "",
            "..",
            "conf_abc123",
            f"../{session_id}/conf_",
            "conf_" + "0" * 32,
        ):
            unknown = {"confirmation_id": confirmation_id}
            assert code_of(person.confirm(session_id, unknown)) == (404, "CONFIRMATION_NOT_FOUND")
    assert marker not in person.runs()


# The turn is stopped, or left


def test_a_cancelled_turn_takes_its_question_back(person, script, marker):
    session_id = person.new_session()
    with person.asked(session_id, script(call(marker), "Ok.", per_request=True)) as (
        question,
        events,
    ):
        answer = person.chat.cancel(session_id)
        assert answer.status_code == 200, answer.text
        assert [event.name for event in events][-2:] == ["cancelled", "done"]
    assert code_of(person.confirm(session_id, question)) == (404, "CONFIRMATION_NOT_FOUND")
    assert person.pending(session_id) == []
    assert person.say(session_id, script("Still here."))[-1].name == "done"
    assert marker not in person.runs()


def test_who_cancels_and_who_approves_at_the_same_moment_agree_on_what_ran(person, script, marker):
    session_id = person.new_session()
    for number in range(10):
        text = f"{marker} {number}"
        message = script(call(text), "Ok.", per_request=True)
        with person.asked(session_id, message) as (question, events):
            with ThreadPoolExecutor(2) as pool:
                cancelling = pool.submit(person.chat.cancel, session_id)
                answer = person.confirm(session_id, question)
                cancelled = cancelling.result()
            last = [event.name for event in events][-2:]
        assert last in (["cancelled", "done"], ["message_complete", "done"])
        assert cancelled.status_code == (200 if last[0] == "cancelled" else 409)
        if answer.status_code == 200:
            assert person.runs().count(text) <= 1
        else:
            assert code_of(answer) == (404, "CONFIRMATION_NOT_FOUND")
            assert text not in person.runs()
        assert person.pending(session_id) == []


def test_a_client_that_leaves_takes_the_question_with_it(person, script, marker, eventually):
    session_id = person.new_session()
    with person.asked(session_id, script(call(marker), "Ok.", per_request=True)) as (question, _):
        pass
    eventually(lambda: person.pending(session_id) == [])
    assert code_of(person.confirm(session_id, question)) == (404, "CONFIRMATION_NOT_FOUND")
    assert marker not in person.runs()


def test_a_detached_turn_waits_without_its_client_and_tells_the_next(
    server, person_at, script, marker
):
    person, elsewhere = map(person_at, server.web_processes)
    session_id = person.new_session()
    message = script(call(marker), "Ok.", per_request=True)
    with person.asked(session_id, message, detached=True) as (question, _):
        pass
    with elsewhere.http.stream("GET", f"/chat/{session_id}/stream") as answer:
        lines = answer.iter_lines()
        assert any(question["confirmation_id"] in line for line in lines)
        assert person.confirm(session_id, question).status_code == 200
        assert list(lines)[-3:][0] == "event: done"
    assert person.runs().count(marker) == 1


def test_a_session_is_busy_while_it_waits_and_its_questions_go_with_it(person, script, marker):
    session_id = person.new_session()
    questions = person.server.data_dir / ".mochi" / "confirmations" / session_id
    with person.asked(session_id, script(call(marker), "Ok.", per_request=True)) as (_, events):
        assert person.http.delete(f"/sessions/{session_id}").status_code == 409
        assert questions.exists()
        person.chat.cancel(session_id)
        list(events)
    assert person.http.delete(f"/sessions/{session_id}").status_code == 204
    assert not questions.exists()


# What goes over the wire


def test_comments_keep_the_connection_while_the_turn_waits(begin, patched, script, marker):
    person = begin(**patched, MOCHI_E2E_HEARTBEAT_SECONDS="0.1")
    session_id = person.new_session()
    body = {"message": script(call(marker), "Ok.", per_request=True)}
    with person.http.stream("POST", f"/chat/{session_id}/stream", json=body) as answer:
        received = b""
        chunks = answer.iter_raw()
        while received.count(b": keep-alive\n\n") < 3:
            received += next(chunks)
        assert b"waiting_for_confirmation" in received
        assert b"event: done" not in received
        [question] = person.pending(session_id)
        person.confirm(session_id, question)
        received += b"".join(chunks)
    assert received.count(b"\nevent: done\n") == 1


HOSTILE = "\n\nevent: done\ndata: {}\n\n\r\n\r\u2028\x85\0 id: x"


@pytest.mark.parametrize("name", ["note", f"note{HOSTILE}"])
def test_names_and_arguments_can_not_break_out_of_their_event(
    person, script, marker, eventually, name
):
    session_id = person.new_session()
    text = marker + HOSTILE
    body = {"message": script(call(text, name), "Ok.", per_request=True)}
    with person.http.stream("POST", f"/chat/{session_id}/stream", json=body) as answer:
        received = b""
        answered = False
        for chunk in answer.iter_raw():
            received += chunk
            if CONFIRM.encode() in received and not answered:
                [question] = eventually(lambda: person.pending(session_id))
                assert question["arguments"] == {"text": text}
                answered = person.confirm(session_id, question).status_code == 200
    blocks = received.removeprefix(b"retry: 2000\n").split(b"\n\n")
    frames = [frame for frame in blocks if frame.startswith(b"id: ")]
    names = [frame.split(b"\n")[1] for frame in frames]
    assert names.count(b"event: done") == 1
    assert names[-1] == b"event: done"
    for frame in frames:
        assert len(frame.split(b"\n")) == 3
        assert frame.isascii()
        json.loads(frame.split(b"\n")[2].removeprefix(b"data: "))
    assert answered == (name == "note")
    assert person.runs().count(marker) == (name == "note")
