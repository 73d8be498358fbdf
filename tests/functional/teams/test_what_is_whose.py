"""Owners on one server find nothing of each other, wherever things lie or are counted."""

import hashlib
import io
import time
from collections.abc import Callable
from typing import Any

import pytest

SESSION_ID = "a1b2c3d4e5"
PLANTED = "zanzibar"

Script = Callable[..., str]


def secret_of(owner: str) -> str:
    return f"{PLANTED} {owner}"


def call(script: Script, name: str, **arguments: Any) -> str:
    tool_call = {"tool_call": [{"name": name, "args": arguments}]}
    return script(tool_call, "Done.", per_request=True)


def result_of(client: Any, script: Script, name: str, **arguments: Any) -> dict[str, Any]:
    """Have a model call a tool; return what became of the call."""
    session_id = client.new_session(
        tool_settings={"tools": [name], "execution_policy": "never_confirm"}
    )
    events = client.say(session_id, call(script, name, **arguments))
    (result,) = [event.data for event in events if event.name == "tool_result"]
    return result


@pytest.fixture(scope="module")
def said(team: Any) -> dict[str, str]:
    """Return the session in which each owner told a secret."""
    sessions = {}
    for owner in ("default", "anna", "bob"):
        client = team.client(owner)
        sessions[owner] = client.new_session()
        client.say(sessions[owner], f"My word is {secret_of(owner)}.")
    return sessions


@pytest.mark.parametrize("path", ["", "/messages", "/status", "/context", "/export"])
def test_a_session_of_another_is_one_that_never_was(
    team: Any, said: dict[str, str], path: str
) -> None:
    foreign = team.client("bob").http.get(f"/sessions/{said['anna']}{path}")
    unknown = team.client("bob").http.get(f"/sessions/{SESSION_ID}{path}")

    assert foreign.status_code == unknown.status_code == 404
    assert foreign.text.replace(said["anna"], SESSION_ID) == unknown.text


def test_searches_and_lists_have_the_own_sessions(team: Any, said: dict[str, str]) -> None:
    for owner, session_id in said.items():
        http = team.client(owner).http
        found = http.get("/search", params={"q": PLANTED})
        assert found.status_code == 200, found.text
        listed = http.get("/sessions").text
        for other in said.keys() - {owner}:
            assert said[other] not in found.text + listed
            assert secret_of(other) not in found.text + listed
        assert session_id in found.text
        assert session_id in listed


def test_exports_have_the_own_sessions(team: Any, said: dict[str, str]) -> None:
    export = team.client("bob").http.get("/export")

    assert export.status_code == 200, export.text
    assert secret_of("bob") in export.text
    assert secret_of("anna") not in export.text
    assert secret_of("default") not in export.text


def test_usage_is_ones_own(team: Any, said: dict[str, str]) -> None:
    for owner, session_id in said.items():
        report = team.client(owner).http.get("/usage", params={"group_by": "session,owner"}).json()
        assert {group["owner"] for group in report["groups"]} == {owner}
        assert session_id in {group["session_id"] for group in report["groups"]}


def test_budgets_are_ones_own(team: Any, said: dict[str, str]) -> None:
    of_anna = team.client("anna").http.get("/budgets").json()["budgets"]
    of_default = team.client("default").http.get("/budgets").json()["budgets"]

    assert [budget["owner"] for budget in of_anna] == ["anna"]
    assert of_anna[0]["spent"] >= 1
    assert [budget["owner"] for budget in of_default] == ["default", None]
    assert of_default[1]["spent"] >= of_default[0]["spent"] + of_anna[0]["spent"]


def test_metrics_count_by_owner(team: Any, said: dict[str, str]) -> None:
    http = team.client("default").http
    deadline = time.monotonic() + 30
    while True:  # they are written once a second
        values = http.get("/metrics").json()["metrics"].get("mochi_owner_turns_total", [])
        owners = {each["labels"]["owner"] for each in values}
        if owners >= {"default", "anna", "bob"}:
            break
        assert time.monotonic() < deadline, values
        time.sleep(0.05)
    assert team.client("anna").http.get("/metrics").status_code == 403


def test_a_known_hash_is_worth_nothing(team: Any) -> None:
    text = f"{secret_of('anna')} in a file".encode()
    kept = team.client("anna").http.post(
        "/attachments", files={"file": ("a.txt", io.BytesIO(text), "text/plain")}
    )
    assert kept.status_code == 201, kept.text
    file_id = kept.json()["id"]
    assert hashlib.sha256(text).hexdigest() in file_id
    bob = team.client("bob")

    assert team.client("anna").http.get(f"/attachments/{file_id}").content == text
    assert bob.http.get(f"/attachments/{file_id}").status_code == 404
    session_id = bob.new_session()
    answer = bob.http.post(
        f"/chat/{session_id}", json={"message": "Read it.", "attachments": [{"id": file_id}]}
    )
    assert answer.status_code in {404, 422}, answer.text
    assert secret_of("anna") not in answer.text


def test_equal_names_of_two_owners_are_two_things(team: Any) -> None:
    body = {"message": "Hello", "model": "qwen3:14b"}
    key = {"Idempotency-Key": "one key"}
    answers = {
        owner: team.client(owner).http.post("/chat", json=body, headers=key).json()
        for owner in ("anna", "bob")
    }

    assert answers["anna"]["session_id"] != answers["bob"]["session_id"]
    again = team.client("anna").http.post("/chat", json=body, headers=key).json()
    assert again["session_id"] == answers["anna"]["session_id"]


def test_prompts_of_an_owner_are_laid_over_the_shared_ones(team: Any) -> None:
    prompts = {"shared.md": "All read this.", "both.md": "The shared one."}
    for filename, content in prompts.items():
        made = team.client("default").http.post(
            "/system-prompts", json={"filename": filename, "content": content}
        )
        assert made.status_code == 201, made.text
    own = team.server.data_dir / "users" / "anna" / "system_prompts"
    own.mkdir(parents=True, exist_ok=True)
    (own / "both.md").write_text("Anna's one.")
    (own / "hers.md").write_text("Only Anna reads this.")

    def read(owner: str, filename: str) -> str | None:
        answer = team.client(owner).http.get(f"/system-prompts/{filename}")
        return answer.json()["content"] if answer.status_code == 200 else None

    assert [read("anna", name) for name in ("shared.md", "both.md", "hers.md")] == [
        "All read this.",
        "Anna's one.",
        "Only Anna reads this.",
    ]
    assert [read("bob", name) for name in ("shared.md", "both.md", "hers.md")] == [
        "All read this.",
        "The shared one.",
        None,
    ]
    acting = {"X-Mochi-Owner": "anna"}
    assert team.client("default").http.delete(
        "/system-prompts/both.md", headers=acting
    ).status_code in {200, 204}
    assert read("anna", "both.md") == "The shared one."
    refused = team.client("default").http.delete("/system-prompts/shared.md", headers=acting)
    assert refused.status_code == 404
    assert read("bob", "shared.md") == "All read this."


def test_what_a_module_remembers_is_one_owners(team: Any, script: Script) -> None:
    for owner in ("anna", "bob"):
        result_of(team.client(owner), script, "note", text=secret_of(owner))

    for owner, other in (("anna", "bob"), ("bob", "anna")):
        for _ in range(3):
            told = result_of(team.client(owner), script, "tell_notes")
            assert secret_of(other) not in told["result"]
        assert result_of(team.client(owner), script, "whose")["result"] == owner


def test_each_owner_has_a_workspace(team: Any, script: Script) -> None:
    kept = {
        owner: result_of(team.client(owner), script, "keep_file", text=secret_of(owner))["result"]
        for owner in ("anna", "bob", "default")
    }

    assert kept == {owner: secret_of(owner) for owner in kept}
    data_dir = team.server.data_dir
    assert (data_dir / "users" / "bob" / "workspace" / "kept.txt").read_text() == secret_of("bob")
    assert (data_dir / "workspace" / "kept.txt").read_text() == secret_of("default")


def test_a_tool_of_some_owners_is_none_for_others(team: Any, script: Script) -> None:
    result = result_of(team.client("anna"), script, "annas_secret")
    assert result["result"] == "only for Anna"
    bob = team.client("bob").http

    assert "annas_secret" not in bob.get("/tools").text
    foreign, unknown = bob.get("/tools/annas_secret"), bob.get("/tools/no_such_tool")
    assert foreign.status_code == unknown.status_code == 404
    assert foreign.text.replace("annas_secret", "no_such_tool") == unknown.text
    session_id = team.client("bob").new_session()
    body = {"message": call(script, "annas_secret"), "selected_tools": ["annas_secret"]}
    assert "only for Anna" not in bob.post(f"/chat/{session_id}", json=body).text


def test_an_mcp_server_of_some_owners_is_none_for_others(team: Any) -> None:
    def names(owner: str) -> set[str]:
        answer = team.client(owner).http.get("/mcp/servers").json()
        return {server["name"] for server in answer["servers"]}

    assert names("anna") == {"annas"}
    assert names("bob") == set()
    assert names("default") == {"broken"}
    assert "secret-place" not in team.client("bob").http.get("/tools").text
    restart = team.client("default").http.post("/mcp/servers/annas/restart")
    assert restart.status_code == 404


def test_the_log_of_tool_calls_shows_the_own_ones(team: Any, script: Script) -> None:
    result_of(team.client("anna"), script, "whose")
    result_of(team.client("bob"), script, "tell_notes")

    sessions = {
        owner: {
            call["session_id"]
            for call in team.client(owner).http.get("/tools/executions").json()["executions"]
        }
        for owner in ("anna", "bob")
    }
    assert sessions["anna"]
    assert sessions["bob"]
    assert not sessions["anna"] & sessions["bob"]


def test_the_log_names_the_owner_and_the_key_and_no_token(team: Any, said: dict[str, str]) -> None:
    token = team.token("anna")
    team.client("anna").say(said["anna"], "Once more.")
    log = team.server.log.read_text()

    assert '"owner": "anna"' in log
    assert '"key_id": "k' in log
    assert token not in log
    assert str(team.clients["anna"].http.headers["Authorization"]).split()[1] not in log


def test_fifty_owners_find_their_own(team: Any) -> None:
    owners = [f"owner-{number}" for number in range(50)]
    clients = team.clients_of(owners)
    sessions = {owner: clients[owner].new_session(title=owner) for owner in owners}
    for owner in owners:
        http = clients[owner].http
        listed = http.get("/sessions").json()
        assert [each["session_id"] for each in listed["sessions"]] == [sessions[owner]]
        usage = http.get("/usage", params={"group_by": "owner"}).json()
        assert usage["groups"] == []
