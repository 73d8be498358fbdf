"""Approvals for the rest of a session, over HTTP: who is asked again, and what is refused."""

import pytest

from tests.functional.confirmations.asking import CONFIRM, call, code_of


def run(person, session_id, message):
    """Run a turn that asks nobody; return what was asked nevertheless."""
    events = person.chat.say(session_id, message)
    return [event for event in events if event.name == CONFIRM]


def tool_policies(person, session_id):
    settings = person.http.get(f"/sessions/{session_id}").json()["tool_settings"]
    return settings.get("tool_policies", {})


def test_the_tool_runs_without_a_question_from_then_on(person, script, marker):
    session_id = person.new_session()
    again = f"{marker}-2"
    message = script(call(marker), call(again), "All is noted.", per_request=True)
    with person.asked(session_id, message) as (question, events):
        answer = person.confirm(session_id, question, remember="session")
        assert answer.status_code == 200, answer.text
        rest = list(events)
    assert [event.name for event in rest if event.name == CONFIRM] == []
    assert tool_policies(person, session_id) == {"note": "never_confirm"}
    assert run(person, session_id, script(call(f"{marker}-3"), "So.", per_request=True)) == []
    assert [line for line in person.runs() if marker in line] == [marker, again, f"{marker}-3"]


def test_only_calls_that_fit_run_without_a_question(person, script, marker):
    session_id = person.new_session()
    scope = {"scope": "session", "arguments": {"text": f"{marker}*"}}
    message = script(call(marker), "Noted.", per_request=True)
    with person.asked(session_id, message) as (question, events):
        assert person.confirm(session_id, question, remember=scope).status_code == 200
        list(events)
    kept = [{"policy": "never_confirm", "arguments": {"text": f"{marker}*"}}]
    assert tool_policies(person, session_id) == {"note": kept}
    assert run(person, session_id, script(call(f"{marker}!"), "So.", per_request=True)) == []

    message = script(call(f"x{marker}"), "Noted.", per_request=True)
    with person.asked(session_id, message) as (question, events):
        assert question["arguments"] == {"text": f"x{marker}"}
        person.confirm(session_id, question, approved=False)
        list(events)
    assert [line for line in person.runs() if marker in line] == [marker, f"{marker}!"]


@pytest.mark.parametrize(
    ("remember", "approved", "says"),
    [
        ("always", True, "must be once, session or a session scope"),
        ("", True, "must be once, session or a session scope"),
        (True, True, "must be once, session or a session scope"),
        ({"scope": "session"}, True, "must be once, session or a session scope"),
        ({"scope": "always", "arguments": {"a": "*"}}, True, "session or a session scope"),
        ({"scope": "session", "arguments": {}}, True, "session or a session scope"),
        ({"scope": "session", "arguments": {"a": ["*"]}}, True, "session or a session scope"),
        ({"scope": "session", "arguments": {"a": "*"}, "b": 1}, True, "or a session scope"),
        ({"scope": "session", "arguments": {"a": "x" * 201}}, True, "or a session scope"),
        (
            {"scope": "session", "arguments": {str(n): "*" for n in range(21)}},
            True,
            "session or a session scope",
        ),
        ("session", False, "Only an approval can be remembered"),
        ({"scope": "session", "arguments": {"text": "*"}}, False, "Only an approval"),
    ],
)
def test_what_is_refused_decides_nothing(person, script, marker, remember, approved, says):
    session_id = person.new_session()
    message = script(call(marker), "Noted.", per_request=True)
    with person.asked(session_id, message) as (question, _):
        answer = person.confirm(session_id, question, approved=approved, remember=remember)
        assert code_of(answer) == (422, "VALIDATION_ERROR")
        assert says in answer.json()["error"]["message"]
        assert answer.json()["error"]["details"]["field"] == "remember"
        assert len(person.pending(session_id)) == 1
        assert tool_policies(person, session_id) == {}
        assert marker not in person.runs()


def test_policies_for_arguments_can_be_set_beforehand_and_are_read_as_they_were_set(
    person, script, marker
):
    kept = [
        {"policy": "never_confirm", "arguments": {"text": f"{marker}*"}},
        {"policy": "always_confirm", "arguments": {"text": "*!"}},
    ]
    session_id = person.new_session(tool_policies={"note": kept, "stay": kept[0]})
    assert tool_policies(person, session_id) == {"note": kept, "stay": kept[:1]}
    assert run(person, session_id, script(call(marker), "Noted.", per_request=True)) == []
    with person.asked(session_id, script(call(f"{marker}!"), "So.", per_request=True)) as (
        asked,
        _,
    ):
        assert asked["arguments"] == {"text": f"{marker}!"}


@pytest.mark.parametrize(
    "policy",
    [
        "sometimes",
        [],
        {"policy": "sometimes", "arguments": {"text": "*"}},
        {"policy": "never_confirm", "arguments": {}},
        {"policy": "never_confirm"},
        {"policy": "never_confirm", "arguments": {"text": "x" * 201}},
        [{"policy": "never_confirm", "arguments": {"text": str(n)}} for n in range(21)],
    ],
)
def test_policies_that_are_none_are_refused(person, policy):
    session_id = person.new_session()
    body = {"tool_settings": {"tools": ["note"], "tool_policies": {"note": policy}}}
    answer = person.http.patch(f"/sessions/{session_id}", json=body)
    assert code_of(answer) == (422, "VALIDATION_ERROR")
    assert answer.json()["error"]["details"]["field"] == "tool_settings.tool_policies.note"
    assert "1 to 20 objects" in answer.json()["error"]["message"]
