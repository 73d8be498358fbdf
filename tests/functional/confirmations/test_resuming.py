"""Answers outlive connections, turns and servers: what was asked before can be approved after."""

import os

import pytest

from tests.functional.confirmations.asking import CONFIRM, SUSPENDED, call, code_of, only

# Without a stream


def test_without_a_stream_the_turn_ends_until_somebody_approves(person, script, marker):
    session_id = person.new_session()
    message = script(call(marker), "All is noted.", per_request=True)
    answer = person.send(session_id, message)
    assert answer.status_code == 202, answer.text
    assert answer.json()["status"] == SUSPENDED
    [question] = answer.json()["pending_confirmations"]
    assert question in person.pending(session_id)
    assert person.http.get(f"/sessions/{session_id}/status").json()["active_turn"] is None
    assert person.confirm(session_id, question).status_code == 200
    assert marker not in person.runs()
    answer = person.send(session_id)
    assert answer.status_code == 200, answer.text
    [executed] = answer.json()["tool_calls_executed"]
    assert (executed["success"], executed["result"]) == (True, f"noted {marker}")
    assert answer.json()["message"]["content"] == "All is noted."
    assert person.runs().count(marker) == 1


def test_a_denial_without_a_stream_is_told_to_the_model_on_resume(person, script, marker):
    session_id = person.new_session()
    message = script(call(marker), "Then not.", per_request=True)
    suspended = person.send(session_id, message).json()
    person.confirm(session_id, suspended["pending_confirmations"][0], approved=False)
    seen = person.say(session_id)
    assert CONFIRM not in [event.name for event in seen]
    assert only(seen, "tool_result")["error_code"] == "TOOL_EXECUTION_DENIED"
    assert only(seen, "message_complete")["content"] == "Then not."
    assert marker not in person.runs()


def test_resuming_without_an_answer_asks_the_same_question_again(person, script, marker):
    session_id = person.new_session()
    twice = {"tool_call": call(marker)["tool_call"] * 2}
    first = person.send(session_id, script(twice, "Ok.", per_request=True)).json()[
        "pending_confirmations"
    ]
    assert len(first) == 2
    again = person.send(session_id)
    assert again.status_code == 202
    assert [question["confirmation_id"] for question in again.json()["pending_confirmations"]] == [
        question["confirmation_id"] for question in first
    ]
    person.confirm(session_id, first[1])
    [left] = person.send(session_id).json()["pending_confirmations"]
    assert left["confirmation_id"] == first[0]["confirmation_id"]
    assert marker not in person.runs()  # calls of one message run together
    person.confirm(session_id, first[0])
    assert person.send(session_id).status_code == 200
    assert person.runs().count(marker) == 2


def test_a_new_message_takes_the_open_question_back(person, script, marker):
    session_id = person.new_session()
    message = script(call(marker), "Ok.", per_request=True)
    suspended = person.send(session_id, message).json()
    person.say(session_id, script("Something else."))
    [question] = suspended["pending_confirmations"]
    assert code_of(person.confirm(session_id, question)) == (404, "CONFIRMATION_NOT_FOUND")
    assert marker not in person.runs()


def test_an_answer_that_is_made_again_asks_again(person, script, marker):
    session_id = person.new_session()
    message = script(call(marker), "Ok.", per_request=True)
    with person.asked(session_id, message) as (first, events):
        person.confirm(session_id, first)
        list(events)
    with person.asked(session_id) as (again, _):
        assert again["confirmation_id"] != first["confirmation_id"]
        assert code_of(person.confirm(session_id, first)) == (409, "CONFIRMATION_ALREADY_DECIDED")
    assert person.runs().count(marker) == 1


def test_an_approval_is_worth_nothing_in_a_copy_of_the_session(person, script, marker):
    session_id = person.new_session()
    message = script(call(marker), "Ok.", per_request=True)
    suspended = person.send(session_id, message).json()
    copy = person.http.post(f"/sessions/{session_id}/fork", json={}).json()["session_id"]
    person.confirm(session_id, suspended["pending_confirmations"][0])
    answer = person.send(copy)
    assert answer.status_code == 202, answer.text
    assert marker not in person.runs()


# The server dies


def test_a_server_that_dies_while_it_asks_runs_nothing_and_asks_again(begin, script, marker):
    person = begin()
    session_id = person.new_session()
    with person.asked(session_id, script(call(marker), "Ok.", per_request=True)) as (first, _):
        person.server.kill()
    person = begin()
    assert [message["role"] for message in person.chat.messages(session_id)] == [
        "user",
        "assistant",
    ]
    assert len(person.pending(session_id)) == 1
    assert person.runs() == []
    with person.asked(session_id) as (again, events):
        assert again["confirmation_id"] == first["confirmation_id"]
        assert again["arguments"] == {"text": marker}
        assert person.runs() == []
        assert person.confirm(session_id, first).status_code == 200
        assert only(list(events), "tool_result")["success"]
    assert person.runs() == [marker]
    assert code_of(person.confirm(session_id, first)) == (409, "CONFIRMATION_ALREADY_DECIDED")


def test_a_server_that_was_stopped_while_it_asked_runs_what_is_approved_later(
    begin, script, marker
):
    person = begin(MOCHI_SHUTDOWN_GRACE_SECONDS="0")
    session_id = person.new_session()
    message = script(call(marker), "Ok.", per_request=True)
    with person.asked(session_id, message) as (question, events):
        person.server.stop()
        *_, error, done = events
        assert (error.data["code"], done.name) == ("SHUTTING_DOWN", "done")
    person = begin()
    assert person.confirm(session_id, question).status_code == 200
    assert person.runs() == []
    seen = person.say(session_id)
    assert CONFIRM not in [event.name for event in seen]
    assert only(seen, "tool_result")["result"] == f"noted {marker}"
    assert person.runs() == [marker]


def test_an_approved_call_that_was_running_when_the_server_died_does_not_run_again(
    begin, script, marker, eventually
):
    person = begin()
    session_id = person.new_session()
    message = script(call(marker, "stay"), "Ok.", per_request=True)
    with person.asked(session_id, message) as (question, _):
        assert person.confirm(session_id, question).status_code == 200
        eventually(lambda: person.runs() == [marker])
        person.server.kill()
    person = begin()
    [*_, result] = person.chat.messages(session_id)
    assert (result["role"], "not run again" in result["content"]) == ("tool", True)
    assert code_of(person.confirm(session_id, question)) == (409, "CONFIRMATION_ALREADY_DECIDED")
    assert person.say(session_id)[-1].name == "done"
    assert person.runs() == [marker]


def test_what_a_power_cut_makes_of_the_files_is_no_approval(begin, script, marker):
    person = begin()
    session_id = person.new_session()
    message = script(call(marker), "Ok.", per_request=True)
    person.send(session_id, message).raise_for_status()
    folder = person.server.data_dir / ".mochi" / "confirmations" / session_id
    [record] = folder.iterdir()
    record.write_bytes(b"\0" * 100)
    (folder / f"conf_{'1' * 32}.asked").write_text('{"session_id": ')
    os.mkfifo(folder / f"conf_{'2' * 32}.asked")
    assert person.pending(session_id) == []
    [question] = person.send(session_id).json()["pending_confirmations"]
    (folder / f"{question['confirmation_id']}.decided").touch()
    assert code_of(person.confirm(session_id, question)) == (408, "TOOL_CONFIRMATION_TIMEOUT")
    [again] = person.send(session_id).json()["pending_confirmations"]
    assert again["confirmation_id"] != question["confirmation_id"]
    assert person.runs() == []


# Another model


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("anthropic:claude-haiku-4-5", "anthropic:claude-sonnet-4-6"),
        ("anthropic:claude-sonnet-4-6", "anthropic:claude-haiku-4-5"),
        ("openai:gpt-5.6-terra", "openai:gpt-6-astra"),
        ("openai:gpt-6-astra", "anthropic:claude-haiku-4-5"),
    ],
)
def test_another_model_goes_on_after_an_approval(person, script, marker, first, second):
    session_id = person.new_session()
    change = person.http.patch(f"/sessions/{session_id}", json={"model": first})
    assert change.status_code == 200
    thinks = {"text_message": {"text": ["Hm."], "reasoning": ["I note it."]}}
    message = script(thinks, call(marker), stall_seconds=0)
    answer = person.http.post(f"/chat/{session_id}", json={"message": message, "think": True})
    assert answer.status_code == 202, answer.text
    [question] = answer.json()["pending_confirmations"]
    change = person.http.patch(f"/sessions/{session_id}", json={"model": second})
    assert change.status_code == 200
    assert person.confirm(session_id, question).status_code == 200

    answer = person.http.post(f"/chat/{session_id}", json={"think": True})

    assert answer.status_code == 200, answer.text
    assert answer.json()["message"]["model"] == second
    assert person.runs().count(marker) == 1
