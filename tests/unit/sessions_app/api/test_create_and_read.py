"""Sessions over HTTP: made, shown."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from django.test import AsyncClient

from sessions_app.http import schemas
from sessions_app.messages import AssistantMessage, Message, ToolCall, ToolMessage
from sessions_app.service import SessionManager
from sessions_app.session import append_messages
from tests.unit.sessions_app.api.conftest import (
    JSON,
    NOW,
    URL,
    Provider,
    refused,
    shaped,
)

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
    created = shaped(await client.post(URL, body, content_type=JSON), 201, schemas.SessionSavedOut)
    assert created.pop("warnings") == []
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


async def test_an_agent_that_cannot_be_used_is_refused_when_it_is_enabled(
    client: AsyncClient, talk: str
) -> None:
    settings = {"agent_settings": {"enabled_agents": ["coder", "broken"]}}
    created = {"model": "qwen3:14b", **settings}
    for answer in (
        await client.post(URL, created, content_type=JSON),
        await client.patch(f"{URL}/{talk}", settings, content_type=JSON),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "AGENT_INVALID")


async def test_what_is_enabled_and_not_there_is_kept_and_told(
    client: AsyncClient, talk: str
) -> None:
    settings = {
        "tool_settings": {
            "tools": ["add_number", "add_numbers", "nameless", "zzz"],
            "tool_group": "math_tool",
        },
        "agent_settings": {"enabled_agents": ["coder", "codre", "coder"]},
    }
    for answer, status in (
        (await client.post(URL, {"model": "qwen3:14b", **settings}, content_type=JSON), 201),
        (await client.patch(f"{URL}/{talk}", settings, content_type=JSON), 200),
    ):
        saved = shaped(answer, status, schemas.SessionSavedOut)
        assert saved["tool_settings"]["tools"] == settings["tool_settings"]["tools"]
        assert saved["tool_settings"]["tool_group"] == "math_tool"
        assert saved["agent_settings"]["enabled_agents"] == ["coder", "codre", "coder"]
        assert saved["warnings"] == [
            "no agent is called `codre`; did you mean coder?",
            "no tool is called `add_number`; did you mean add_numbers?",
            "the tool `nameless` can't be offered: It has no description.",
            "no tool is called `zzz`",
            "no group of tools is called `math_tool`; did you mean math_tools?",
        ]


async def test_settings_that_are_not_given_are_not_looked_at(
    client: AsyncClient, talk: str
) -> None:
    answer = await client.patch(f"{URL}/{talk}", {"options": {"seed": 1}}, content_type=JSON)
    assert shaped(answer, 200, schemas.SessionSavedOut)["warnings"] == []


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [("missing", 404, "MODEL_NOT_FOUND"), ("gpt-oss:20b", 422, "VALIDATION_ERROR")],
)
async def test_a_summary_model_that_cannot_is_refused_with_those_that_can(
    client: AsyncClient, talk: str, name: str, status: int, code: str
) -> None:
    body = {"model": "qwen3:14b", "summary_model": name}
    for answer in (
        await client.post(URL, body, content_type=JSON),
        await client.patch(f"{URL}/{talk}", {"summary_model": name}, content_type=JSON),
    ):
        details = refused(answer, status, code)
        assert (details["field"], details["allowed"]) == ("summary_model", ["qwen3:14b"])


async def test_a_strategy_that_nobody_knows_is_refused_with_those_there_are(
    client: AsyncClient, talk: str
) -> None:
    answer = await client.patch(f"{URL}/{talk}", {"context_strategy": "forget"}, content_type=JSON)
    assert "summarize_history" in refused(answer, 422, "VALIDATION_ERROR")["allowed"]
    changed = await client.patch(f"{URL}/{talk}", {"context_strategy": "none"}, content_type=JSON)
    assert shaped(changed, 200, schemas.SessionSavedOut)["context_strategy"] == "none"


async def test_the_least_that_is_needed_is_a_model(client: AsyncClient) -> None:
    answer = await client.post(URL, {"model": "qwen3:14b"}, content_type=JSON)
    created = shaped(answer, 201, schemas.SessionSavedOut)
    assert created.keys() == {
        "session_id",
        "model",
        "created_at",
        "updated_at",
        "message_count",
        "tool_settings",
        "agent_settings",
        "warnings",
    }


async def test_null_is_the_same_as_a_setting_that_was_left_out(client: AsyncClient) -> None:
    nulls = dict.fromkeys(["tool_group", "execution_policy", "tool_policies"])
    body = {
        "model": "qwen3:14b",
        "tool_settings": {"tools": ["add_numbers"], **nulls},
        "agent_settings": {"enabled_agents": None, "selection_metadata": None},
    }
    least = {"model": "qwen3:14b", "tool_settings": {"tools": ["add_numbers"]}}

    one = (await client.post(URL, body, content_type=JSON)).json()
    other = (await client.post(URL, least, content_type=JSON)).json()

    assert one["tool_settings"] == other["tool_settings"]
    assert one["tool_settings"]["execution_policy"] == "always_confirm"
    assert one["agent_settings"] == other["agent_settings"]


async def test_a_prompt_file_alone_is_loaded(client: AsyncClient) -> None:
    body = {"model": "qwen3:14b", "system_prompt_source_file": "helpful.md"}
    created = (await client.post(URL, body, content_type=JSON)).json()
    (prompt,) = (await client.get(f"{URL}/{created['session_id']}/messages")).json()["messages"]
    assert (prompt["content"], prompt["source_file"]) == ("Be helpful.", "helpful.md")


async def test_a_prompt_file_that_is_not_there_makes_no_session(client: AsyncClient) -> None:
    body = {"model": "qwen3:14b", "system_prompt_source_file": "missing.md"}
    refused(await client.post(URL, body, content_type=JSON), 404, "PROMPT_NOT_FOUND")
    assert (await client.get(URL)).json()["total"] == 0


@pytest.mark.parametrize("default_model", ["qwen3:14b"])
@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "k"}])
async def test_a_session_without_a_model_gets_the_default_one(
    client: AsyncClient, headers: dict[str, str]
) -> None:
    answer = await client.post(URL, {"title": "Mine"}, content_type=JSON, headers=headers)
    assert shaped(answer, 201, schemas.SessionSavedOut)["model"] == "qwen3:14b"


@pytest.mark.parametrize("default_model", ["nope"])
async def test_a_default_model_that_is_not_there_makes_no_session(client: AsyncClient) -> None:
    refused(await client.post(URL, {}, content_type=JSON), 404, "MODEL_NOT_FOUND")
    assert (await client.get(URL)).json()["total"] == 0


async def test_without_the_setting_the_first_installed_model_is_the_default(
    client: AsyncClient,
) -> None:
    created = shaped(await client.post(URL, {}, content_type=JSON), 201, schemas.SessionSavedOut)
    assert created["model"] == "qwen3:14b"


async def test_without_any_model_the_error_names_field_and_setting(
    client: AsyncClient, provider: Provider
) -> None:
    provider.models = []
    answer = await client.post(URL, {}, content_type=JSON)
    assert refused(answer, 404, "MODEL_NOT_FOUND")["field"] == "model"
    assert "MOCHI_DEFAULT_MODEL" in answer.json()["error"]["message"]


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
    created = shaped(answer, 201, schemas.SessionSavedOut)
    url = f"{URL}/{created['session_id']}"
    answer = await client.patch(url, {"model": "else", "context_window": 10**6}, content_type=JSON)
    assert shaped(answer, 200, schemas.SessionSavedOut)["model"] == "else"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"model": ""}, "model"),
        ({"model": 5}, "model"),
        ({"model": "qwen3:14b", "system_prompt": " \n"}, "system_prompt"),
        ({"model": "qwen3:14b", "system_prompt": ["x"]}, "system_prompt"),
        ({"model": "qwen3:14b", "options": "hot"}, "options"),
        ({"model": "qwen3:14b", "options": {"temperature": "hot"}}, "options"),
        ({"model": "qwen3:14b", "options": {"top_p": True}}, "options"),
        ({"model": "qwen3:14b", "options": {"seed": 1.5}}, "options"),
        ({"model": "qwen3:14b", "options": {"num_ctx": 4096}}, "options"),
        ({"model": "qwen3:14b", "options": {"verbosity": "chatty"}}, "options"),
        ({"model": "qwen3:14b", "options": {"service_tier": 1}}, "options"),
        ({"model": "qwen3:14b", "options": {"thinking_budget": 100}}, "options"),
        ({"model": "qwen3:14b", "options": {"reasoning_effort": "low"}}, "options"),
        ({"model": "qwen3:14b", "system_prompt": "x" * 10_000}, "system_prompt"),
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


async def test_a_misspelt_option_is_refused_with_the_one_that_was_meant(
    client: AsyncClient, talk: str
) -> None:
    body = {"options": {"temprature": 0.5}}
    for answer in (
        await client.post(URL, {"model": "qwen3:14b", **body}, content_type=JSON),
        await client.patch(f"{URL}/{talk}", body, content_type=JSON),
    ):
        assert refused(answer, 422, "VALIDATION_ERROR")["field"] == "options"
        assert "did you mean temperature?" in answer.json()["error"]["message"]


async def test_an_option_that_only_other_providers_have_is_for_their_models(
    client: AsyncClient, talk: str
) -> None:
    for changes in ({"options": {"thinking_budget": 9}}, {"options": {"reasoning_effort": "low"}}):
        answer = await client.patch(f"{URL}/{talk}", changes, content_type=JSON)
        assert refused(answer, 422, "VALIDATION_ERROR")["field"] == "options"
        assert "not an option of Ollama" in answer.json()["error"]["message"]


async def test_the_same_key_and_body_get_the_same_session_as_it_is_by_then(
    client: AsyncClient, provider: Provider
) -> None:
    body = {"model": "qwen3:14b", "tool_settings": {"tools": ["no_such_tool"]}}
    key = {"idempotency-key": "k"}
    first = shaped(
        await client.post(URL, body, content_type=JSON, headers=key), 201, schemas.SessionSavedOut
    )
    again = await client.post(URL, body, content_type=JSON, headers=key)
    assert shaped(again, 201, schemas.SessionSavedOut) == first
    assert first["warnings"]

    await client.patch(f"{URL}/{first['session_id']}", {"title": "Sea"}, content_type=JSON)
    provider.reachable = False
    again = await client.post(URL, body, content_type=JSON, headers=key)
    later = shaped(again, 201, schemas.SessionSavedOut)
    assert (later["session_id"], later["title"]) == (first["session_id"], "Sea")
    assert (await client.get(URL)).json()["total"] == 1


async def test_a_key_is_for_one_body_and_is_free_after_a_refusal(client: AsyncClient) -> None:
    key = {"idempotency-key": "k"}
    body = {"model": "no-such-model"}
    answer = await client.post(URL, body, content_type=JSON, headers=key)
    refused(answer, 404, "MODEL_NOT_FOUND")
    body = {"model": "qwen3:14b"}
    created = await client.post(URL, body, content_type=JSON, headers=key)
    assert created.status_code == 201
    body["title"] = "Sea"
    refused(await client.post(URL, body, content_type=JSON, headers=key), 422, "VALIDATION_ERROR")
    await client.delete(f"{URL}/{created.json()['session_id']}")
    del body["title"]
    answer = await client.post(URL, body, content_type=JSON, headers=key)
    refused(answer, 404, "SESSION_NOT_FOUND")


# --- Read --------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"format_version": "1.1", "tool_settings": None},
        {"format_version": "1.2", "tool_settings": None, "context_window_config": None},
        {"format_version": "1.3", "tool_settings": None, "agent_settings": None},
    ],
)
async def test_settings_are_objects_with_their_defaults_in_every_reply_about_an_old_session(
    client: AsyncClient, manager: SessionManager, sessions_dir: Path, metadata: dict[str, Any]
) -> None:
    made = await asyncio.to_thread(manager.create, "qwen3:14b")
    session_id = made.session_id
    written = {"model": "qwen3:14b", "created_at": "2025-01-15T10:30:00", **metadata}
    document = json.dumps({"metadata": written, "messages": []})
    await asyncio.to_thread((sessions_dir / f"{session_id}.json").write_text, document)
    url = f"{URL}/{session_id}"
    replies = [
        shaped(await client.get(url), 200, schemas.SessionDetailOut),
        shaped(
            await client.patch(url, {"options": {}}, content_type=JSON),
            200,
            schemas.SessionSavedOut,
        ),
        shaped(await client.post(f"{url}/fork", {}, content_type=JSON), 201, schemas.SessionOut),
    ]
    tools = {"tools": [], "tool_group": None, "execution_policy": "always_confirm"}
    agents = {"enabled_agents": [], "selection_metadata": None}
    settings = [(reply["tool_settings"], reply["agent_settings"]) for reply in replies]
    assert settings == [(tools, agents)] * 3
