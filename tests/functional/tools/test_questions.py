"""Questions of MCP servers to people, of both eras of the protocol, through a real server."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.functional.confirmations.conftest import CONFIRM, PATCHED, Person

PROGRAM = str(
    Path(__file__).parents[2] / "unit" / "tools_app" / "mcp" / "programs" / "asking_server.py"
)
SECRET = "planted-secret-4711"
ERAS = ["old", "new"]


def entry(*arguments: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": [PROGRAM, *arguments], "trusted": True}


def configured(server: Any) -> Any:
    servers = {"old": entry("--old"), "new": entry()}
    (server.data_dir / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    return server


def wait_for_shops(chat: Any) -> None:
    for era in ERAS:
        chat.wait_for_tool(f"{era}__order")


@pytest.fixture(scope="module")
def server(start_once: Any) -> Any:
    """Return a server of two web processes, with a shop of each era."""
    server = configured(start_once("--workers", "2"))
    for process in server.web_processes:
        wait_for_shops(server.chat_with(process))
    return server


@pytest.fixture
def person(server: Any) -> Person:
    return Person(server)


@pytest.fixture
def begin(start: Any) -> Any:
    """Return how to start servers on one data directory, each with its client."""

    def begin(*flags: str, **options: Any) -> Person:
        person = Person(configured(start(*flags, **options)))
        wait_for_shops(person.chat)
        return person

    return begin


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Return the file in which a shop writes down its orders."""
    return tmp_path / "orders"


def session_at(person: Person, era: str, **settings: Any) -> str:
    tools = {"tools": [f"{era}__order", f"{era}__paint", f"{era}__pay"]}
    return person.chat.new_session(
        tool_settings={**tools, "execution_policy": "never_confirm", **settings}
    )


def calling(script: Any, era: str, tool: str, **arguments: Any) -> str:
    call = {"tool_call": [{"name": f"{era}__{tool}", "args": arguments}]}
    return script(call, "Done.", per_request=True)


def of(events: list[Any], name: str) -> list[Any]:
    return [event.data for event in events if event.name == name]


@pytest.mark.parametrize("era", ERAS)
def test_a_person_fills_in_the_form_of_a_server(
    person: Person, script: Any, orders: Path, era: str
) -> None:
    session_id = session_at(person, era)
    message = calling(script, era, "order", item="tea", path=str(orders))

    with person.asked(session_id, message) as (question, events):
        assert person.pending(session_id)[0]["schema"] == question["schema"]
        content = {"count": 2, "password": SECRET}
        person.confirm(session_id, question, content=content).raise_for_status()
        seen = list(events)

    assert (question["kind"], question["server"], question["message"]) == (
        "input",
        era,
        "Which size?",
    )
    assert (question["arguments"], question["secret_names"]) == ({}, ["password"])
    assert of(seen, "tool_result")[0]["result"] == "ordered 2 tea"
    assert orders.read_text() == f"tea small 2 {SECRET}\n"


@pytest.mark.parametrize("era", ERAS)
def test_what_was_filled_in_is_in_no_file_and_no_event(
    person: Person, script: Any, orders: Path, era: str
) -> None:
    session_id = session_at(person, era)
    message = calling(script, era, "order", item="tea", path=str(orders))

    with person.asked(session_id, message) as (question, events):
        person.confirm(session_id, question, content={"password": SECRET}).raise_for_status()
        seen = list(events)

    assert SECRET in orders.read_text()
    assert SECRET not in repr(seen)
    assert SECRET not in person.http.get(f"/sessions/{session_id}").text
    files = [path for path in person.server.data_dir.rglob("*") if path.is_file()]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


@pytest.mark.parametrize("era", ERAS)
def test_values_that_do_not_fit_leave_the_question_open(
    person: Person, script: Any, orders: Path, era: str
) -> None:
    session_id = session_at(person, era)
    message = calling(script, era, "order", item="tea", path=str(orders))

    with person.asked(session_id, message) as (question, events):
        for content in ({"count": 0}, {"count": "2"}, {"size": "huge"}, {"more": 1}):
            refused = person.confirm(session_id, question, content=content)
            assert refused.status_code == 422, refused.text
        assert len(person.pending(session_id)) == 1
        person.confirm(session_id, question, content={}).raise_for_status()
        seen = list(events)

    assert of(seen, "tool_result")[0]["result"] == "ordered 1 tea"


@pytest.mark.parametrize("era", ERAS)
def test_a_denial_declines(person: Person, script: Any, orders: Path, era: str) -> None:
    session_id = session_at(person, era)
    message = calling(script, era, "order", item="tea", path=str(orders))

    with person.asked(session_id, message) as (question, events):
        person.confirm(session_id, question, approved=False).raise_for_status()
        seen = list(events)

    [result] = of(seen, "tool_result")
    assert (result["success"], not orders.exists()) == (False, True)
    assert "decline" in result["error_message"].lower()
    assert seen[-1].name == "done"


@pytest.mark.parametrize("era", ERAS)
def test_two_questions_of_a_call_are_both_asked(person: Person, script: Any, era: str) -> None:
    session_id = session_at(person, era)
    answers = {"Which size?": {"size": "large"}, "Which colour?": {"colour": "red"}}

    seen = []
    with person.chat.stream(session_id, message=calling(script, era, "paint")) as events:
        for event in events:
            seen.append(event)
            if event.name == CONFIRM:
                content = answers[event.data["message"]]
                person.confirm(session_id, event.data, content=content).raise_for_status()

    assert of(seen, "tool_result")[0]["result"] == "large in red"


def test_an_address_is_shown_and_the_call_is_repeated(
    person: Person, script: Any, tmp_path: Path
) -> None:
    session_id = session_at(person, "old")
    message = calling(script, "old", "pay", path=str(tmp_path / "paid"))

    with person.asked(session_id, message) as (question, events):
        assert (question["kind"], question["url"]) == ("url", "https://shop.example/pay?order=1")
        refused = person.confirm(session_id, question, content={})
        assert refused.status_code == 422
        person.confirm(session_id, question).raise_for_status()
        seen = list(events)

    assert of(seen, "tool_result")[0]["result"] == "paid"


def test_other_addresses_are_never_asked_about(person: Person, script: Any, tmp_path: Path) -> None:
    session_id = session_at(person, "old")
    message = calling(script, "old", "pay", path=str(tmp_path / "paid"), url="javascript:alert(1)")

    seen = person.chat.say(session_id, message)

    assert of(seen, CONFIRM) == []
    assert not of(seen, "tool_result")[0]["success"]


# Without a stream


@pytest.mark.parametrize("era", ERAS)
def test_without_a_stream_the_answer_comes_by_other_requests_at_any_worker(
    server: Any, person: Person, script: Any, orders: Path, era: str
) -> None:
    session_id = session_at(person, era)
    first, second = (Person(server, server.chat_with(worker)) for worker in server.web_processes)

    asking = first.send(session_id, calling(script, era, "order", item="tea", path=str(orders)))
    assert asking.status_code == 202, asking.text
    [question] = asking.json()["pending_confirmations"]
    assert (question["kind"], question["server"]) == ("input", era)
    again = second.send(session_id)
    assert again.status_code == 202, again.text
    assert (
        again.json()["pending_confirmations"][0]["confirmation_id"] == (question["confirmation_id"])
    )
    second.confirm(session_id, question, content={"count": 3}).raise_for_status()
    answer = second.send(session_id)

    assert answer.status_code == 200, answer.text
    assert answer.json()["message"]["content"] == "Done."
    assert orders.read_text() == "tea small 3 \n"


# The server dies


def test_a_question_of_the_newer_protocol_survives_the_server(
    begin: Any, script: Any, orders: Path
) -> None:
    person = begin()
    session_id = session_at(person, "new")
    message = calling(script, "new", "order", item="tea", path=str(orders))
    with person.asked(session_id, message) as (question, _):
        person.server.kill()

    person = begin()
    [left] = person.pending(session_id)
    assert left["confirmation_id"] == question["confirmation_id"]
    person.confirm(session_id, question, content={"count": 4}).raise_for_status()
    answer = person.send(session_id)

    assert answer.status_code == 200, answer.text
    assert orders.read_text() == "tea small 4 \n"


def test_an_answer_after_days_starts_the_next_turn(begin: Any, script: Any, orders: Path) -> None:
    person = begin(**PATCHED, MOCHI_E2E_WAITING_SECONDS="0.3")
    session_id = session_at(person, "new", approval_timeout_seconds=86_400)
    message = calling(script, "new", "order", item="tea", path=str(orders))
    person.chat.say(session_id, message)  # and nobody answers while the turn waits
    [question] = person.pending(session_id)
    assert not orders.exists()

    person.confirm(session_id, question, content={"count": 7}).raise_for_status()

    deadline = time.monotonic() + 60
    while person.chat.messages(session_id)[-1]["content"] != "Done.":
        assert time.monotonic() < deadline, "no turn went on"
        time.sleep(0.02)
    assert orders.read_text() == "tea small 7 \n"


def test_a_turn_that_goes_on_elsewhere_asks_the_question_again(
    begin: Any, script: Any, orders: Path
) -> None:
    person = begin()
    session_id = session_at(person, "new")
    message = calling(script, "new", "order", item="tea", path=str(orders))
    with person.asked(session_id, message, detached=True, on_crash="continue") as (question, _):
        person.server.kill()

    person = begin()
    person.confirm(session_id, question, content={"count": 5}).raise_for_status()
    seen = person.chat.reattach(session_id)

    assert of(seen, "tool_result")[-1]["result"] == "ordered 5 tea"
    assert orders.read_text() == "tea small 5 \n"


def test_a_call_of_the_older_protocol_is_interrupted_with_the_server(
    begin: Any, script: Any, orders: Path
) -> None:
    person = begin()
    session_id = session_at(person, "old")
    message = calling(script, "old", "order", item="tea", path=str(orders))
    with person.asked(session_id, message) as (question, _):
        person.server.kill()

    person = begin()
    [*_, result] = person.chat.messages(session_id)

    assert (result["role"], "not run again" in result["content"]) == ("tool", True)
    assert person.pending(session_id) == []
    assert person.confirm(session_id, question, content={}).status_code == 404
    assert person.say(session_id)[-1].name == "done"
    assert not orders.exists()


# Other protocols


def run(person: Person, session_id: str, **body: Any) -> list[dict[str, Any]]:
    """Run a turn over AG-UI, and return its events."""
    given = {"threadId": session_id, "runId": "run", "messages": [], **body}
    answer = person.http.post("/agui", json=given)
    assert answer.status_code == 200, answer.text
    lines = answer.text.splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def test_ag_ui_is_interrupted_by_a_question(person: Person, script: Any, orders: Path) -> None:
    session_id = session_at(person, "new")
    message = calling(script, "new", "order", item="tea", path=str(orders))

    *_, ended = run(person, session_id, messages=[{"id": "m1", "role": "user", "content": message}])
    [interrupt] = ended["outcome"]["interrupts"]
    assert (interrupt["reason"], interrupt["message"]) == ("input", "Which size?")
    assert interrupt["responseSchema"]["properties"]["size"]["enum"] == ["small", "large"]
    assert interrupt["metadata"]["server"] == "new"
    answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"count": 6}}
    seen = run(person, session_id, resume=[answer])

    assert seen[-1]["type"] == "RUN_FINISHED"
    assert orders.read_text() == "tea small 6 \n"


def test_ag_ui_declines_by_cancelling(person: Person, script: Any, orders: Path) -> None:
    session_id = session_at(person, "new")
    message = calling(script, "new", "order", item="tea", path=str(orders))
    *_, ended = run(person, session_id, messages=[{"id": "m1", "role": "user", "content": message}])
    [interrupt] = ended["outcome"]["interrupts"]

    seen = run(person, session_id, resume=[{"interruptId": interrupt["id"], "status": "cancelled"}])

    assert "elicitation was decline" in json.dumps(seen)
    assert not orders.exists()


def test_ag_ui_declines_what_is_asked_in_the_middle_of_a_call(
    person: Person, script: Any, orders: Path
) -> None:
    session_id = session_at(person, "old")
    message = calling(script, "old", "order", item="tea", path=str(orders))

    seen = run(person, session_id, messages=[{"id": "m1", "role": "user", "content": message}])

    assert seen[-1]["outcome"]["type"] == "success"
    assert "elicitation was decline" in json.dumps(seen)
    assert not orders.exists()


@pytest.mark.parametrize("era", ERAS)
def test_the_ai_sdk_gets_a_part_and_our_route_answers(
    person: Person, script: Any, orders: Path, era: str
) -> None:
    session_id = session_at(person, era)
    text = calling(script, era, "order", item="tea", path=str(orders))
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": text}]}
    body = {"id": session_id, "messages": [message]}

    kinds = []
    with person.http.stream("POST", "/ui/chat", json=body) as answer:
        for line in answer.iter_lines():
            if not line.startswith("data: {"):
                continue
            part = json.loads(line.removeprefix("data: "))
            kinds.append(part["type"])
            if part["type"] == "data-elicitation":
                question = part["data"]
                person.confirm(session_id, question, content={"count": 8}).raise_for_status()

    assert "tool-approval-request" not in kinds
    assert kinds[-1] == "finish"
    assert orders.read_text() == "tea small 8 \n"
