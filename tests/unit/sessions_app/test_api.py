"""The ``/sessions`` routes over HTTP. Every answer has the shape that its route declares."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote

import pytest
from django.test import AsyncClient
from pydantic import BaseModel

from agents_app.errors import AgentInvalid, AgentNotFound
from chat.summaries import SummaryService
from mochi_project.api import api
from mochi_project.services import install_services
from models_app.catalogue import ModelCatalogue
from models_app.errors import ModelNotFound, OllamaUnreachable
from models_app.language_model import ModelInfo
from models_app.providers.ollama import OllamaModel
from prompts_app.service import SystemPromptService
from sessions_app import schemas
from sessions_app.messages import AssistantMessage, Message, ToolCall, ToolMessage
from sessions_app.service import SessionManager
from sessions_app.session import Session, append_messages, with_metadata

URL = "/api/v1/sessions"
JSON = "application/json"
NOW = "2026-11-21T10:00:00.000000+00:00"
UNKNOWN_ID = "ffffffffff"

MakeSession = Callable[..., Session]


class Provider:
    """A provider with one model, that can go away."""

    def __init__(self) -> None:
        self.reachable = True
        self.silent = False

    async def describe(self, name: str) -> ModelInfo:
        if self.silent:
            await asyncio.Event().wait()
        if not self.reachable:
            raise OllamaUnreachable("No connection.")
        if name != "qwen3:14b":
            raise ModelNotFound(f"Model {name!r} not found.", model=name)
        return ModelInfo(name=name, size_mb=1.0, context_length=40960)

    async def list_models(self) -> list[ModelInfo]:
        return [await self.describe("qwen3:14b")]


class Agents:
    """One agent that works, and one that does not."""

    async def usable(self, name: str) -> None:
        if name == "broken":
            raise AgentInvalid(name, "It has no description.")
        if name != "coder":
            raise AgentNotFound(name)


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def prompts(tmp_path: Path) -> SystemPromptService:
    service = SystemPromptService(tmp_path / "system_prompts")
    service.create("helpful.md", "Be helpful.")
    return service


@pytest.fixture
def deleted() -> list[str]:
    return []


@pytest.fixture
def manager(sessions_dir: Path, deleted: list[str]) -> SessionManager:
    return SessionManager(sessions_dir=sessions_dir, on_delete=deleted.append)


@pytest.fixture
def client(
    manager: SessionManager, provider: Provider, prompts: SystemPromptService
) -> Iterator[AsyncClient]:
    models = ModelCatalogue(cast("OllamaModel", provider))
    summaries = SummaryService(
        repository=manager.repository,
        answers=cast("Any", None),
        models=models,
        queue=cast("Any", None),
        failures=cast("Any", None),
        unsupported=["gpt-oss:20b"],
        enabled=True,
        interval_seconds=3,
    )
    services: Any = SimpleNamespace(
        sessions=manager, models=models, prompts=prompts, summaries=summaries, agents=Agents()
    )
    install_services(services)
    yield AsyncClient()
    install_services(None)


@pytest.fixture
def talk(manager: SessionManager, make_session: MakeSession) -> str:
    """Return a session with two questions and answers."""
    session = make_session("one", "answer", "two", "answer")
    manager.repository.create(session)
    return session.session_id


def shaped(answer: Any, status: int, schema: type[BaseModel]) -> dict[str, Any]:
    """Return the answer's body, which has the status and every field that the schema names."""
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"] == "application/json; charset=utf-8"
    body: dict[str, Any] = answer.json()
    schema.model_validate(body)
    unknown = body.keys() - schema.model_fields.keys()
    assert not unknown, unknown
    return body


def refused(answer: Any, status: int, code: str) -> dict[str, Any]:
    """Return the details of an error answer."""
    error = shaped(answer, status, schemas.ErrorResponse)["error"]
    assert error["code"] == code
    assert error["message"]
    assert isinstance(error["details"]["retryable"], bool)
    details: dict[str, Any] = error["details"]
    return details


# --- Create ------------------------------------------------------------------------------------


async def test_a_session_is_created_as_it_was_asked_for(client: AsyncClient) -> None:
    body = {
        "model": "qwen3:14b",
        "system_prompt": "You are a helpful assistant.",
        "system_prompt_source_file": "not-even-there.md",
        "tool_settings": {
            "tools": ["add_numbers"],
            "tool_group": None,
            "execution_policy": "never_confirm",
            "tool_policies": {"add_numbers": "always_confirm"},
        },
        "agent_settings": {"enabled_agents": ["coder"]},
        "options": {"temperature": 0.1, "seed": 7},
        "summary_model": "qwen3:14b",
        "context_strategy": "truncate_by_tokens",
    }
    created = shaped(await client.post(URL, body, content_type=JSON), 201, schemas.SessionOut)
    assert created["message_count"] == 1
    assert created["tool_settings"] == body["tool_settings"]
    assert created["agent_settings"] == {"enabled_agents": ["coder"], "selection_metadata": None}
    assert created["options"] == body["options"]
    assert created["created_at"].endswith("+00:00")

    detail = shaped(
        await client.get(f"{URL}/{created['session_id']}"), 200, schemas.SessionDetailOut
    )
    assert {key: detail[key] for key in created} == created
    assert detail["summary_model"] == "qwen3:14b"
    assert detail["context_strategy"] == "truncate_by_tokens"
    assert detail["format_version"] == "1.3"
    assert detail["messages"][0]["content"] == body["system_prompt"]
    assert detail["messages"][0]["source_file"] == "not-even-there.md"


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [("broken", 422, "AGENT_INVALID"), ("nobody", 404, "AGENT_NOT_FOUND")],
)
async def test_an_agent_that_cannot_be_used_is_refused_when_it_is_enabled(
    client: AsyncClient, talk: str, name: str, status: int, code: str
) -> None:
    settings = {"agent_settings": {"enabled_agents": ["coder", name]}}
    created = {"model": "qwen3:14b", **settings}
    for answer in (
        await client.post(URL, created, content_type=JSON),
        await client.patch(f"{URL}/{talk}", settings, content_type=JSON),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize("name", ["missing", "gpt-oss:20b"])
async def test_a_summary_model_that_cannot_is_refused_with_those_that_can(
    client: AsyncClient, talk: str, name: str
) -> None:
    body = {"model": "qwen3:14b", "summary_model": name}
    for answer in (
        await client.post(URL, body, content_type=JSON),
        await client.patch(f"{URL}/{talk}", {"summary_model": name}, content_type=JSON),
    ):
        details = refused(answer, 422, "VALIDATION_ERROR")
        assert (details["field"], details["allowed"]) == ("summary_model", ["qwen3:14b"])


async def test_a_strategy_that_nobody_knows_is_refused_with_those_there_are(
    client: AsyncClient, talk: str
) -> None:
    answer = await client.patch(f"{URL}/{talk}", {"context_strategy": "forget"}, content_type=JSON)
    assert "summarize_history" in refused(answer, 422, "VALIDATION_ERROR")["allowed"]
    changed = await client.patch(f"{URL}/{talk}", {"context_strategy": "none"}, content_type=JSON)
    assert shaped(changed, 200, schemas.SessionOut)["context_strategy"] == "none"


async def test_the_least_that_is_needed_is_a_model(client: AsyncClient) -> None:
    answer = await client.post(URL, {"model": "qwen3:14b"}, content_type=JSON)
    created = shaped(answer, 201, schemas.SessionOut)
    assert created.keys() == {
        "session_id",
        "model",
        "created_at",
        "updated_at",
        "message_count",
        "tool_settings",
        "agent_settings",
    }


async def test_a_prompt_file_alone_is_loaded(client: AsyncClient) -> None:
    body = {"model": "qwen3:14b", "system_prompt_source_file": "helpful.md"}
    created = (await client.post(URL, body, content_type=JSON)).json()
    (prompt,) = (await client.get(f"{URL}/{created['session_id']}/messages")).json()["messages"]
    assert (prompt["content"], prompt["source_file"]) == ("Be helpful.", "helpful.md")


async def test_a_prompt_file_that_is_not_there_makes_no_session(client: AsyncClient) -> None:
    body = {"model": "qwen3:14b", "system_prompt_source_file": "missing.md"}
    refused(await client.post(URL, body, content_type=JSON), 404, "PROMPT_NOT_FOUND")
    assert (await client.get(URL)).json()["total"] == 0


async def test_an_unknown_model_makes_no_session(client: AsyncClient) -> None:
    refused(await client.post(URL, {"model": "nope"}, content_type=JSON), 404, "MODEL_NOT_FOUND")
    assert (await client.get(URL)).json()["total"] == 0


@pytest.mark.parametrize("trouble", ["unreachable", "silent"])
async def test_a_provider_that_is_away_keeps_nobody_from_a_session(
    client: AsyncClient, provider: Provider, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    monkeypatch.setattr("models_app.catalogue.LOOK_UP_SECONDS", 0.01)
    provider.reachable, provider.silent = trouble != "unreachable", trouble == "silent"
    answer = await client.post(URL, {"model": "anything"}, content_type=JSON)
    created = shaped(answer, 201, schemas.SessionOut)
    url = f"{URL}/{created['session_id']}"
    answer = await client.patch(url, {"model": "else", "context_window": 10**6}, content_type=JSON)
    assert shaped(answer, 200, schemas.SessionOut)["model"] == "else"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "model"),
        ({"model": ""}, "model"),
        ({"model": 5}, "model"),
        ({"model": None}, "model"),
        ({"model": "qwen3:14b", "system_prompt": " \n"}, "system_prompt"),
        ({"model": "qwen3:14b", "system_prompt": ["x"]}, "system_prompt"),
        ({"model": "qwen3:14b", "options": "hot"}, "options"),
        (
            {"model": "qwen3:14b", "tool_settings": {"execution_policy": "yolo"}},
            "tool_settings.execution_policy",
        ),
        ({"model": "qwen3:14b", "tool_settings": {"tools": "add"}}, "tool_settings.tools"),
        ({"model": "qwen3:14b", "agent_settings": []}, "agent_settings"),
        ({"model": "qwen3:14b", "tool_settings": {"tool": ["add"]}}, "tool_settings.tool"),
        (
            {"model": "qwen3:14b", "agent_settings": {"agents": ["coder"]}},
            "agent_settings.agents",
        ),
    ],
)
async def test_a_wrong_field_is_named_and_makes_no_session(
    client: AsyncClient, body: dict[str, Any], field: str
) -> None:
    details = refused(await client.post(URL, body, content_type=JSON), 422, "VALIDATION_ERROR")
    assert details["field"] == field
    assert (await client.get(URL)).json()["total"] == 0


# --- Read --------------------------------------------------------------------------------------


async def test_sessions_are_listed_with_what_is_unreadable(
    client: AsyncClient, talk: str, sessions_dir: Path
) -> None:
    (sessions_dir / "0000000000.json").touch()
    listed = shaped(await client.get(URL), 200, schemas.SessionListOut)
    assert listed["sessions"] == [
        {
            "session_id": talk,
            "model": "qwen3:14b",
            "created_at": NOW,
            "updated_at": NOW,
            "message_count": 4,
            "summary": None,
            "preview": "one",
        }
    ]
    assert listed["total"] == 1
    assert listed["unreadable"] == [{"file": "0000000000.json", "reason": "empty"}]


async def test_the_list_is_paged_and_searched(
    client: AsyncClient, manager: SessionManager, talk: str
) -> None:
    await asyncio.to_thread(
        manager.repository.update,
        talk,
        lambda session: with_metadata(
            session, now=NOW, summary={"summary": "Counting.", "topics": ["numbers"]}
        ),
    )
    for query, count, total in (
        ("q=NUMB", 1, 1),
        ("q=birds", 0, 0),
        ("limit=1", 1, 1),
        ("offset=1", 0, 1),
    ):
        listed = shaped(await client.get(f"{URL}?{query}"), 200, schemas.SessionListOut)
        assert (len(listed["sessions"]), listed["total"]) == (count, total), query


@pytest.mark.parametrize(
    ("query", "field"), [("limit=0", "limit"), ("limit=x", "limit"), ("offset=-1", "offset")]
)
async def test_a_page_that_makes_no_sense_is_refused(
    client: AsyncClient, query: str, field: str
) -> None:
    assert refused(await client.get(f"{URL}?{query}"), 422, "VALIDATION_ERROR")["field"] == field


async def test_messages_are_given_out_as_they_are_kept(
    client: AsyncClient, manager: SessionManager, talk: str
) -> None:
    more: tuple[Message, ...] = (
        AssistantMessage(
            content="",
            model="m",
            message_id="x",
            timestamp=NOW,
            thinking="Hmm.",
            cancelled=True,
            tool_calls=(ToolCall(id="c1", name="add", arguments={"a": 2**70}),),
        ),
        ToolMessage(content="3", message_id="y", timestamp=NOW, tool_name="add", tool_call_id="c1"),
    )
    await asyncio.to_thread(
        manager.repository.update, talk, lambda session: append_messages(session, *more, now=NOW)
    )
    body = shaped(await client.get(f"{URL}/{talk}/messages"), 200, schemas.MessagesOut)
    assert body["session_id"] == talk
    assert body["messages"][0] == {
        "role": "user",
        "content": "one",
        "message_id": "0000000000",
        "timestamp": NOW,
    }
    assert body["messages"][4]["tool_calls"] == [
        {"id": "c1", "function": {"name": "add", "arguments": {"a": 2**70}}}
    ]
    assert body["messages"][5]["tool_call_id"] == "c1"
    detail = shaped(await client.get(f"{URL}/{talk}"), 200, schemas.SessionDetailOut)
    assert detail["messages"] == body["messages"]


# --- Change ------------------------------------------------------------------------------------


async def test_patch_changes_what_is_given_and_nothing_else(client: AsyncClient, talk: str) -> None:
    url = f"{URL}/{talk}"
    before = (await client.get(url)).json()
    body = {"tool_settings": {"tools": ["a"]}, "context_window": 16384, "options": {"seed": 1}}
    patched = shaped(await client.patch(url, body, content_type=JSON), 200, schemas.SessionOut)
    assert patched["tool_settings"] == {
        "tools": ["a"],
        "tool_group": None,
        "execution_policy": "always_confirm",
    }
    assert patched["options"] == {"seed": 1}
    after = shaped(await client.get(url), 200, schemas.SessionDetailOut)
    assert after["context_window_config"]["current_window"] == 16384
    assert after["context_window_config"]["manual_override"] is True
    assert (after["model"], after["messages"]) == (before["model"], before["messages"])

    await client.patch(
        url, {"tool_settings": None, "context_window": None, "options": None}, content_type=JSON
    )
    reset = shaped(await client.get(url), 200, schemas.SessionDetailOut)
    assert reset["tool_settings"]["tools"] == []
    assert reset["context_window_config"]["manual_override"] is False
    assert "options" not in reset


async def test_an_empty_patch_changes_nothing(client: AsyncClient, talk: str) -> None:
    before = (await client.get(f"{URL}/{talk}")).json()
    shaped(await client.patch(f"{URL}/{talk}", {}, content_type=JSON), 200, schemas.SessionOut)
    assert (await client.get(f"{URL}/{talk}")).json() == before


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"model": "nope"}, 404, "MODEL_NOT_FOUND"),
        ({"model": None}, 422, "VALIDATION_ERROR"),
        ({"context_window": 40961}, 422, "VALIDATION_ERROR"),
        ({"context_window": 0}, 422, "VALIDATION_ERROR"),
        ({"context_window": True}, 422, "VALIDATION_ERROR"),
        ({"context_window": "8192"}, 422, "VALIDATION_ERROR"),
        ({"options": []}, 422, "VALIDATION_ERROR"),
    ],
)
async def test_a_patch_that_can_not_be_changes_nothing(
    client: AsyncClient, talk: str, body: dict[str, Any], status: int, code: str
) -> None:
    before = (await client.get(f"{URL}/{talk}")).json()
    details = refused(await client.patch(f"{URL}/{talk}", body, content_type=JSON), status, code)
    assert status != 422 or details["field"] == next(iter(body))
    assert (await client.get(f"{URL}/{talk}")).json() == before


async def test_an_edit_replaces_the_text_and_cuts_off_the_rest(
    client: AsyncClient, talk: str
) -> None:
    answer = await client.put(f"{URL}/{talk}/messages/0", {"content": "new"}, content_type=JSON)
    body = shaped(answer, 200, schemas.MessageEditOut)
    assert body["message"]["content"] == "new"
    assert body["message"]["message_id"] == "0000000000"
    assert (body["session_id"], body["message_index"]) == (talk, 0)
    assert (body["message_count"], body["removed"]) == (1, 3)
    messages = (await client.get(f"{URL}/{talk}/messages")).json()["messages"]
    assert messages == [body["message"]]


@pytest.mark.parametrize(
    ("index", "body", "status", "code"),
    [
        ("1", {"content": "x"}, 400, "INVALID_MESSAGE_INDEX"),
        ("4", {"content": "x"}, 400, "INVALID_MESSAGE_INDEX"),
        ("-1", {"content": "x"}, 400, "INVALID_MESSAGE_INDEX"),
        ("zero", {"content": "x"}, 422, "VALIDATION_ERROR"),
        ("0", {"content": " "}, 422, "VALIDATION_ERROR"),
        ("0", {}, 422, "VALIDATION_ERROR"),
        ("0", {"content": None}, 422, "VALIDATION_ERROR"),
        ("0", {"content": "x", "message_id": "another"}, 409, "MESSAGE_CHANGED"),
    ],
)
async def test_an_edit_that_can_not_be_changes_nothing(
    client: AsyncClient, talk: str, index: str, body: dict[str, Any], status: int, code: str
) -> None:
    before = (await client.get(f"{URL}/{talk}")).json()
    answer = await client.put(f"{URL}/{talk}/messages/{index}", body, content_type=JSON)
    refused(answer, status, code)
    assert (await client.get(f"{URL}/{talk}")).json() == before


@pytest.mark.parametrize(
    ("body", "content", "label"),
    [
        ({"content": "Be brief."}, "Be brief.", None),
        ({"source_file": "helpful.md"}, "Be helpful.", "helpful.md"),
        ({"content": "Be brief.", "source_file": "x.md"}, "Be brief.", "x.md"),
    ],
)
async def test_a_system_prompt_is_set_and_removed(
    client: AsyncClient, talk: str, body: dict[str, Any], content: str, label: str | None
) -> None:
    url = f"{URL}/{talk}/system-prompt"
    answer = shaped(await client.put(url, body, content_type=JSON), 200, schemas.SystemPromptOut)
    assert answer == {"content": content, "source_file": label, "message_index": 0}
    messages = (await client.get(f"{URL}/{talk}/messages")).json()["messages"]
    assert (messages[0]["role"], messages[0]["content"], len(messages)) == ("system", content, 5)
    removed = await client.delete(url)
    assert (removed.status_code, removed.content) == (204, b"")
    refused(await client.delete(url), 404, "PROMPT_NOT_FOUND")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 422, "VALIDATION_ERROR"),
        ({"content": ""}, 422, "VALIDATION_ERROR"),
        ({"source_file": "missing.md"}, 404, "PROMPT_NOT_FOUND"),
        ({"source_file": "../secret.md"}, 422, "VALIDATION_ERROR"),
    ],
)
async def test_a_system_prompt_that_can_not_be_changes_nothing(
    client: AsyncClient, talk: str, body: dict[str, Any], status: int, code: str
) -> None:
    answer = await client.put(f"{URL}/{talk}/system-prompt", body, content_type=JSON)
    refused(answer, status, code)
    assert len((await client.get(f"{URL}/{talk}/messages")).json()["messages"]) == 4


async def test_a_fork_copies_up_to_a_message(client: AsyncClient, talk: str) -> None:
    answer = await client.post(f"{URL}/{talk}/fork", {"message_index": 1}, content_type=JSON)
    fork = shaped(answer, 201, schemas.SessionOut)
    assert fork["message_count"] == 2
    assert fork["forked_from"] == {"session_id": talk, "message_index": 1}
    answer = await client.post(f"{URL}/{talk}/fork", "", content_type=JSON)
    whole = shaped(answer, 201, schemas.SessionOut)
    assert whole["message_count"] == 4
    answer = await client.post(f"{URL}/{talk}/fork", {"message_index": 4}, content_type=JSON)
    refused(answer, 400, "INVALID_MESSAGE_INDEX")


async def test_a_deleted_session_is_gone_and_its_journals_are_told(
    client: AsyncClient, talk: str, deleted: list[str]
) -> None:
    answer = await client.delete(f"{URL}/{talk}")
    assert (answer.status_code, answer.content) == (204, b"")
    assert deleted == [talk]
    refused(await client.get(f"{URL}/{talk}"), 404, "SESSION_NOT_FOUND")


# --- All routes of one session -----------------------------------------------------------------

REQUESTS: list[tuple[str, str, dict[str, Any] | None]] = [
    ("get", "", None),
    ("get", "/messages", None),
    ("patch", "", {"options": None}),
    ("patch", "", {"model": "qwen3:14b"}),
    ("put", "/messages/0", {"content": "x"}),
    ("put", "/system-prompt", {"content": "x"}),
    ("delete", "/system-prompt", None),
    ("post", "/fork", {}),
    ("delete", "", None),
]


async def send(client: AsyncClient, session_id: str, request: tuple[str, str, Any]) -> Any:
    method, path, body = request
    url = f"{URL}/{quote(session_id, safe='')}{path}"
    if body is None:
        return await getattr(client, method)(url)
    return await getattr(client, method)(url, body, content_type=JSON)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: f"{request[0]} {request[1]}")
@pytest.mark.parametrize("session_id", [UNKNOWN_ID, "A1B2C3D4E5", "..", "a1b2c3d4e5\n", "\0", "x"])
async def test_an_unknown_or_malformed_id_is_not_found(
    client: AsyncClient, talk: str, request_: tuple[str, str, Any], session_id: str
) -> None:
    refused(await send(client, session_id, request_), 404, "SESSION_NOT_FOUND")


@pytest.mark.parametrize(
    "request_", REQUESTS[:-1], ids=lambda request: f"{request[0]} {request[1]}"
)
async def test_a_corrupt_file_is_a_typed_error_and_stays(
    client: AsyncClient, sessions_dir: Path, request_: tuple[str, str, Any]
) -> None:
    path = sessions_dir / "a1b2c3d4e5.json"
    await asyncio.to_thread(path.parent.mkdir)
    await asyncio.to_thread(path.write_bytes, b"\0" * 100)
    refused(await send(client, path.stem, request_), 500, "SESSION_CORRUPT")
    assert await asyncio.to_thread(path.read_bytes) == b"\0" * 100


@pytest.mark.parametrize("request_", REQUESTS[4:7] + REQUESTS[8:])
async def test_a_running_turn_makes_the_session_busy(
    client: AsyncClient, manager: SessionManager, talk: str, request_: tuple[str, str, Any]
) -> None:
    await asyncio.to_thread(manager.repository.claim, talk, "t1")
    answer = await send(client, talk, request_)
    details = refused(answer, 409, "SESSION_BUSY")
    assert details["retryable"] is True
    assert details["turn_id"] == "t1"
    assert answer["Retry-After"]


async def test_settings_change_while_a_turn_runs(
    client: AsyncClient, manager: SessionManager, talk: str
) -> None:
    await asyncio.to_thread(manager.repository.claim, talk, "t1")
    answer = await client.patch(f"{URL}/{talk}", {"context_window": 4096}, content_type=JSON)
    shaped(answer, 200, schemas.SessionOut)


def test_every_route_is_documented() -> None:
    paths = {
        path: methods
        for path, methods in api.get_openapi_schema()["paths"].items()
        if path.startswith(URL)
    }
    ours = {
        operation["operationId"]: operation
        for methods in paths.values()
        for operation in methods.values()
        if "sessions" in operation["tags"]
    }
    assert set(ours) == {
        "list_sessions",
        "create_session",
        "get_session",
        "delete_session",
        "update_session",
        "list_messages",
        "edit_message",
        "set_system_prompt",
        "remove_system_prompt",
        "fork_session",
    }
    for operation in ours.values():
        assert operation["summary"]
        assert operation["description"]


def test_the_examples_have_the_shapes_that_they_show() -> None:
    shown = 0
    for schema in vars(schemas).values():
        if isinstance(schema, type) and issubclass(schema, BaseModel):
            extra = schema.model_config.get("json_schema_extra")
            if isinstance(extra, dict) and "example" in extra:
                schema.model_validate(extra["example"])
                shown += 1
    assert shown >= 12
