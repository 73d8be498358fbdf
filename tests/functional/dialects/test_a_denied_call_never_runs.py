"""A call that a person denied never runs, and one that was approved runs with those arguments.

Whatever protocol the decision comes in, whatever was decided or refused before, and whatever the
policies have become.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from dialects_app.shared.ids import item_id
from mochi_server.testing import MODEL, MochiServer, Reply, ToolCall
from tests.functional.conftest import NO_TLS
from tests.functional.dialects.conftest import ServeOnce

TOOLS = '''
"""A tool whose runs can be counted."""

__all__ = ["wipe"]
__destructive__ = ["wipe"]


def wipe(path: str) -> str:
    """Remove a file."""
    with open({runs!r}, "a", encoding="utf-8") as runs:
        runs.write(path + "\\n")
    return f"wiped {{path}}"
'''
MISSING = "missing-model:1b"


class House:
    """A server, its sessions that wait for an approval, and what its tool did."""

    def __init__(self, server: MochiServer) -> None:
        self.server = server
        self.runs_file = server.data_dir / "runs"
        self.http = httpx.Client(base_url=server.url, trust_env=False, verify=NO_TLS, timeout=60)

    def post(self, path: str, body: Any, method: str = "POST") -> httpx.Response:
        return self.http.request(method, path, json=body)

    def runs(self) -> list[str]:
        return self.runs_file.read_text().splitlines() if self.runs_file.exists() else []

    def new_session(self) -> str:
        settings = {"tools": ["wipe"], "execution_policy": "always_confirm"}
        made = self.post("/api/v1/sessions", {"model": MODEL, "tool_settings": settings})
        return made.json()["session_id"]

    def suspended(self, path: str) -> tuple[str, str]:
        """Return a session whose turn has ended with a question, and the question."""
        self.server.script(Reply(tool_calls=[ToolCall("wipe", {"path": path})]), "Finished.")
        session_id = self.new_session()
        answer = self.post(f"/api/v1/chat/{session_id}", {"message": "Wipe it."})
        assert answer.status_code == 202, answer.text
        [question] = answer.json()["pending_confirmations"]
        return session_id, question["confirmation_id"]

    def pending(self, session_id: str) -> list[str]:
        answer = self.http.get(f"/api/v1/chat/{session_id}/confirmations").json()
        return [each["confirmation_id"] for each in answer["confirmations"]]

    def confirm(self, session_id: str, question: str, **decision: Any) -> httpx.Response:
        body = {"confirmation_id": question, **decision}
        return self.post(f"/api/v1/chat/{session_id}/confirm-tool", body)

    def resume(self, session_id: str) -> httpx.Response:
        return self.post(f"/api/v1/chat/{session_id}", {})

    def relax(self, session_id: str) -> None:
        settings = {"tools": ["wipe"], "execution_policy": "never_confirm"}
        body = {"tool_settings": settings}
        assert self.post(f"/api/v1/sessions/{session_id}", body, "PATCH").status_code == 200

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Occupy the only place for turns."""
        self.server.reset()
        self.server.script(Reply(tool_calls=[ToolCall("wipe", {"path": "other"})]), "Finished.")
        path = f"/api/v1/chat/{self.new_session()}"
        with self.http.stream("POST", f"{path}/stream", json={"message": "Wipe it."}) as stream:
            lines = stream.iter_lines()  # the stream is closed when they are forgotten
            next(line for line in lines if "confirmation_required" in line)
            yield
            self.post(f"{path}/cancel", {})


class Native:
    def decide(self, house, session_id, question, approved, model=None, **edited):
        given = {"approved": approved}
        if edited:
            given["arguments"] = edited
        answer = house.confirm(session_id, question, **given)
        return house.resume(session_id) if answer.status_code == 200 else answer


class Responses:
    def decide(self, house, session_id, question, approved, model=MODEL, **fields):
        given = {
            "type": "mcp_approval_response",
            "approval_request_id": item_id("mcpr", session_id, question),
            "approve": approved,
        }
        return house.post("/v1/responses", {"model": model, "input": [given], **fields})


class AgUi:
    def decide(self, house, session_id, question, approved, model=MODEL, **edited):
        payload = {"approved": approved, **({"editedArgs": edited} if edited else {})}
        resume = [{"interruptId": question, "status": "resolved", "payload": payload}]
        body = {
            "threadId": session_id,
            "runId": "run",
            "messages": [],
            "resume": resume,
            "forwardedProps": {"model": model},
        }
        return house.post("/api/v1/agui", body)


class AiSdk:
    def decide(self, house, session_id, question, approved, model=MODEL):
        part = {
            "type": "dynamic-tool",
            "toolCallId": "call",
            "state": "approval-responded",
            "approval": {"id": question, "approved": approved},
        }
        message = {"id": "turn", "role": "assistant", "parts": [part]}
        body = {"id": session_id, "message": message, "messageId": "turn", "model": model}
        return house.post("/api/v1/ui/chat", body)


DOORS = {"native": Native(), "responses": Responses(), "ag_ui": AgUi(), "ai_sdk": AiSdk()}
TRAVELLING = ["responses", "ag_ui", "ai_sdk"]
"""The protocols in which decisions come with the request that resumes the calls."""


@pytest.fixture(scope="module")
def shared(serve_once: ServeOnce) -> Iterator[House]:
    server = serve_once(MOCHI_MAX_ACTIVE_TURNS="1")
    house = House(server)
    (server.data_dir / "tools").mkdir()
    tools = TOOLS.format(runs=str(house.runs_file))
    (server.data_dir / "tools" / "own.py").write_text(tools)
    with house.http:
        yield house


@pytest.fixture
def house(shared: House) -> House:
    shared.server.reset()
    shared.runs_file.unlink(missing_ok=True)
    return shared


@pytest.fixture
def door(request: pytest.FixtureRequest) -> Any:
    return DOORS[request.param]


every_door = pytest.mark.parametrize("door", DOORS, indirect=True)
travelling = pytest.mark.parametrize("door", TRAVELLING, indirect=True)


def require_decided_otherwise(answer: httpx.Response) -> None:
    assert answer.status_code == 409, answer.text
    assert "decided already" in answer.text


def last_result(house: House, session_id: str) -> dict[str, Any]:
    messages = house.http.get(f"/api/v1/sessions/{session_id}/messages").json()["messages"]
    return [each for each in messages if each["role"] == "tool"][-1]


def require_denied(house: House, session_id: str) -> None:
    assert house.runs() == []
    result = last_result(house, session_id)
    assert (result["error_code"], result["failed"]) == ("TOOL_EXECUTION_DENIED", True)
    assert house.pending(session_id) == []


@pytest.mark.parametrize("door", ["responses", "ag_ui"], indirect=True)
def test_an_approval_of_a_turn_without_a_model_is_not_recorded(house, door):
    session_id, question = house.suspended("a")
    assert door.decide(house, session_id, question, True, model=MISSING).status_code == 404
    assert house.pending(session_id) == [question]
    assert door.decide(house, session_id, question, False).status_code == 200
    require_denied(house, session_id)


@travelling
def test_an_approval_of_a_turn_that_finds_no_place_is_not_recorded(house, door):
    session_id, question = house.suspended("a")
    with house.busy():
        assert door.decide(house, session_id, question, True).status_code == 503
        assert house.pending(session_id) == [question]
    assert door.decide(house, session_id, question, False).status_code == 200
    require_denied(house, session_id)


@every_door
def test_a_denial_replaces_an_approval_that_no_tool_used(house, door):
    session_id, question = house.suspended("a")
    assert house.confirm(session_id, question, approved=True).status_code == 200
    answer = door.decide(house, session_id, question, False)
    assert answer.status_code == 200, answer.text
    require_denied(house, session_id)


@every_door
def test_a_denial_is_not_turned_into_an_approval(house, door):
    session_id, question = house.suspended("a")
    assert house.confirm(session_id, question, approved=False).status_code == 200
    answer = door.decide(house, session_id, question, True)
    require_decided_otherwise(answer)
    house.relax(session_id)
    assert house.resume(session_id).status_code == 200
    require_denied(house, session_id)


def test_a_denial_wins_over_a_policy_that_was_relaxed_since(house):
    session_id, question = house.suspended("a")
    assert house.confirm(session_id, question, approved=False).status_code == 200
    house.relax(session_id)
    assert house.resume(session_id).status_code == 200
    require_denied(house, session_id)


def test_a_question_stays_one_if_the_policy_is_relaxed(house):
    session_id, question = house.suspended("a")
    house.relax(session_id)
    answer = house.resume(session_id)
    assert answer.status_code == 202, answer.text
    assert house.runs() == []
    assert house.pending(session_id) == [question]
    assert house.confirm(session_id, question, approved=True).status_code == 200
    assert house.resume(session_id).status_code == 200
    assert house.runs() == ["a"]


@pytest.mark.parametrize("decision", [{"approved": False}, None])
def test_a_copy_asks_anew_about_a_call_that_was_open_whatever_its_policy(house, decision):
    session_id, question = house.suspended("a")
    if decision is not None:
        assert house.confirm(session_id, question, **decision).status_code == 200
    copy = house.post(f"/api/v1/sessions/{session_id}/fork", {}).json()["session_id"]
    house.relax(copy)
    answer = house.resume(copy)
    assert answer.status_code == 202, answer.text
    assert house.runs() == []


@pytest.mark.parametrize("decision", [{"approved": False}, None])
def test_a_call_is_asked_about_anew_once_its_question_was_swept_whatever_the_policy(
    house, decision
):
    session_id, question = house.suspended("a")
    if decision is not None:
        assert house.confirm(session_id, question, **decision).status_code == 200
    house.relax(session_id)
    shutil.rmtree(house.server.data_dir / ".mochi" / "confirmations" / session_id)
    path = house.server.data_dir / "chat_sessions" / f"{session_id}.json"
    path.write_text(re.sub(r'("timestamp": *")\d{4}', r"\g<1>2020", path.read_text()))
    answer = house.resume(session_id)
    assert answer.status_code == 202, answer.text
    assert house.runs() == []


def test_a_denial_wins_over_the_policy_that_comes_with_it(house):
    session_id, question = house.suspended("a")
    free = {"type": "mcp", "server_label": "mochi", "require_approval": "never"}
    answer = Responses().decide(house, session_id, question, False, tools=[free])
    assert answer.status_code == 200, answer.text
    require_denied(house, session_id)


def test_edited_arguments_of_a_second_approval_are_what_runs_if_the_first_began_no_turn(house):
    session_id, question = house.suspended("a")
    with house.busy():
        assert AgUi().decide(house, session_id, question, True).status_code == 503
    assert AgUi().decide(house, session_id, question, True, path="b").status_code == 200
    assert house.runs() == ["b"]


@pytest.mark.parametrize("door", ["native", "ag_ui"], indirect=True)
def test_an_approval_with_other_arguments_than_the_recorded_one_is_refused(house, door):
    session_id, question = house.suspended("a")
    edited = {"approved": True, "arguments": {"path": "b"}}
    assert house.confirm(session_id, question, **edited).status_code == 200
    for arguments in ({}, {"path": "c"}):
        answer = door.decide(house, session_id, question, True, **arguments)
        require_decided_otherwise(answer)
    assert house.runs() == []
    assert house.resume(session_id).status_code == 200
    assert house.runs() == ["b"]


@travelling
def test_an_approval_that_says_what_was_approved_before_runs_the_call(house, door):
    session_id, question = house.suspended("a")
    assert house.confirm(session_id, question, approved=True).status_code == 200
    answer = door.decide(house, session_id, question, True)
    assert answer.status_code == 200, answer.text
    assert house.runs() == ["a"]


def test_of_several_decisions_none_is_recorded_if_one_is_refused(house):
    calls = [ToolCall("wipe", {"path": "a"}), ToolCall("wipe", {"path": "b"})]
    house.server.script(Reply(tool_calls=calls), "Finished.")
    session_id = house.new_session()
    answer = house.post(f"/api/v1/chat/{session_id}", {"message": "Wipe them."})
    first, second = (each["confirmation_id"] for each in answer.json()["pending_confirmations"])
    assert house.confirm(session_id, second, approved=False).status_code == 200
    given = [
        {
            "type": "mcp_approval_response",
            "approval_request_id": item_id("mcpr", session_id, name),
            "approve": True,
        }
        for name in (first, second)
    ]
    answer = house.post("/v1/responses", {"model": MODEL, "input": given})
    assert answer.status_code == 409, answer.text
    assert answer.json()["error"]["param"] == "input[1]"
    assert house.pending(session_id) == [first]
    assert house.confirm(session_id, first, approved=True).status_code == 200
    assert house.resume(session_id).status_code == 200
    assert house.runs() == ["a"]
