"""Sessions over HTTP: changed, forked, deleted."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from django.test import AsyncClient

from sessions_app.http import deletion_schemas, schemas
from sessions_app.http.list_schemas import SessionListOut
from sessions_app.service import SessionManager
from sessions_app.session import Session, SessionMetadata
from tests.claims import claim_session
from tests.unit.sessions_app.api.conftest import JSON, NOW, UNKNOWN_ID, URL, refused, shaped


async def test_patch_changes_what_is_given_and_nothing_else(client: AsyncClient, talk: str) -> None:
    url = f"{URL}/{talk}"
    before = (await client.get(url)).json()
    body = {"tool_settings": {"tools": ["a"]}, "context_window": 16384, "options": {"seed": 1}}
    patched = shaped(await client.patch(url, body, content_type=JSON), 200, schemas.SessionSavedOut)
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
    shaped(await client.patch(f"{URL}/{talk}", {}, content_type=JSON), 200, schemas.SessionSavedOut)
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
        ({"options": {"keep_alive": "half an hour"}}, 422, "VALIDATION_ERROR"),
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
        ("zero", {"content": "x"}, 409, "MESSAGE_CHANGED"),
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
        ({"content": "x" * 10_000}, 422, "VALIDATION_ERROR"),
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
    answer = await client.post(f"{URL}/{talk}/fork", '{"message_index": 1.0}', content_type=JSON)
    assert shaped(answer, 201, schemas.SessionOut)["message_count"] == 2
    assert fork["forked_from"] == {"session_id": talk, "message_index": 1}
    answer = await client.post(f"{URL}/{talk}/fork", "", content_type=JSON)
    whole = shaped(answer, 201, schemas.SessionOut)
    assert whole["message_count"] == 4
    answer = await client.post(f"{URL}/{talk}/fork", {"message_index": 4}, content_type=JSON)
    refused(answer, 400, "INVALID_MESSAGE_INDEX")


@pytest.mark.parametrize("index", [False, True, "1", 1.5, -1])
async def test_a_fork_takes_nothing_but_a_number_for_a_place(
    client: AsyncClient, talk: str, index: Any
) -> None:
    answer = await client.post(f"{URL}/{talk}/fork", {"message_index": index}, content_type=JSON)
    refused(answer, 422, "VALIDATION_ERROR")
    assert (await client.get(URL)).json()["total"] == 1


async def test_a_patch_needs_its_body(client: AsyncClient, talk: str) -> None:
    answer = await client.patch(f"{URL}/{talk}", "", content_type=JSON)
    assert refused(answer, 422, "VALIDATION_ERROR")["field"] == "body"
    answer = await client.patch(f"{URL}/{talk}", {}, content_type=JSON)
    shaped(answer, 200, schemas.SessionSavedOut)


async def test_a_deleted_session_is_gone_and_its_journals_are_told(
    client: AsyncClient, talk: str, deleted: list[str]
) -> None:
    answer = await client.delete(f"{URL}/{talk}")
    assert (answer.status_code, answer.content) == (204, b"")
    assert deleted == [talk]
    refused(await client.get(f"{URL}/{talk}"), 404, "SESSION_NOT_FOUND")


async def test_a_session_with_a_running_turn_is_deleted_when_that_is_forced(
    client: AsyncClient, talk: str, manager: SessionManager
) -> None:
    await asyncio.to_thread(claim_session, manager.repository, talk, "t1")
    refused(await client.delete(f"{URL}/{talk}"), 409, "SESSION_BUSY")
    refused(await client.delete(f"{URL}/{talk}?force=false"), 409, "SESSION_BUSY")
    assert (await client.delete(f"{URL}/{talk}?force=true")).status_code == 204
    refused(await client.delete(f"{URL}/{talk}?force=true"), 404, "SESSION_NOT_FOUND")


async def test_several_sessions_are_deleted_at_once(
    client: AsyncClient, talk: str, manager: SessionManager
) -> None:
    other = (await asyncio.to_thread(manager.create, "qwen3:14b")).session_id
    await asyncio.to_thread(claim_session, manager.repository, other, "t1")
    named = {"session_ids": [talk, other, UNKNOWN_ID]}
    nulls = {"force": None, "agents": None}
    answer = await client.post(f"{URL}/delete", {**named, **nulls}, content_type=JSON)
    body = shaped(answer, 200, deletion_schemas.DeletionsOut)
    assert [each["outcome"] for each in body["results"]] == ["deleted", "busy", "not_found"]
    assert [each["error"] and each["error"]["code"] for each in body["results"]] == [
        *(None, "SESSION_BUSY", None)
    ]
    assert body["deleted"] == 1
    answer = await client.post(f"{URL}/delete", {**named, "force": True}, content_type=JSON)
    body = shaped(answer, 200, deletion_schemas.DeletionsOut)
    assert [each["outcome"] for each in body["results"]] == ["not_found", "deleted", "not_found"]


async def test_a_folder_in_a_sessions_place_is_not_deleted_and_says_what_to_do(
    client: AsyncClient, manager: SessionManager, sessions_dir: Path, talk: str
) -> None:
    folder = sessions_dir / f"{UNKNOWN_ID}.json"
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    answer = await client.delete(f"{URL}/{UNKNOWN_ID}")
    refused(answer, 409, "SESSION_NOT_DELETABLE")
    assert "move or remove it by hand" in answer.json()["error"]["message"]
    body = {"session_ids": [UNKNOWN_ID, talk]}
    many = (await client.post(f"{URL}/delete", body, content_type=JSON)).json()
    assert [each["outcome"] for each in many["results"]] == ["failed", "deleted"]
    assert await asyncio.to_thread(folder.is_dir)
    assert (await client.get(URL)).json()["unreadable"][0]["file"] == folder.name


@pytest.mark.parametrize("ids", [[], ["a1b2c3d4e5"] * 1001, ["x" * 101], "a1b2c3d4e5", [1]])
async def test_what_names_no_sessions_or_too_many_deletes_none(
    client: AsyncClient, talk: str, ids: object
) -> None:
    answer = await client.post(f"{URL}/delete", {"session_ids": ids}, content_type=JSON)
    assert refused(answer, 422, "VALIDATION_ERROR")["field"].startswith("session_ids")


@pytest.mark.parametrize(("query", "kept"), [("", 1), ("?agents=false", 1), ("?agents=true", 0)])
async def test_agents_sessions_go_with_their_session_when_asked(
    client: AsyncClient, talk: str, chats: SessionManager, query: str, kept: int
) -> None:
    def make_chat() -> None:
        extra = {"agent_name": "coder", "called_by": {"session_id": talk}}
        chats.repository.create(
            Session(
                metadata=SessionMetadata(
                    session_id="0123456789", model="m", created_at=NOW, updated_at=NOW, extra=extra
                )
            )
        )

    await asyncio.to_thread(make_chat)
    assert (await client.delete(f"{URL}/{talk}{query}")).status_code == 204
    listed = await asyncio.to_thread(chats.list)
    assert len(listed.sessions) == kept


async def test_a_session_is_called_pinned_and_put_away(client: AsyncClient, talk: str) -> None:
    url = f"{URL}/{talk}"
    before = (await client.get(url)).json()
    body = {"title": "The sea", "metadata": {"project": "x"}, "pinned": True, "archived": True}
    saved = shaped(await client.patch(url, body, content_type=JSON), 200, schemas.SessionSavedOut)
    assert saved.items() >= {**body, "titled_by": "person"}.items()
    listed = shaped(await client.get(URL), 200, SessionListOut)["sessions"]
    [entry] = [one for one in listed if one["session_id"] == talk]
    assert entry.items() >= body.items()
    assert entry["updated_at"] == before["updated_at"]

    body = {"title": None, "metadata": None, "pinned": False, "archived": False}
    await client.patch(url, body, content_type=JSON)
    assert (await client.get(url)).json() == before


@pytest.mark.parametrize(
    "body",
    [
        {"title": ""},
        {"title": 5},
        {"metadata": []},
        {"metadata": dict.fromkeys(map(str, range(17)))},
        {"metadata": {"a": "x" * 4096}},
        {"pinned": None},
        {"archived": "yes"},
    ],
)
async def test_labels_that_make_no_sense_change_nothing(
    client: AsyncClient, talk: str, body: dict[str, Any]
) -> None:
    before = (await client.get(f"{URL}/{talk}")).json()
    refused(await client.patch(f"{URL}/{talk}", body, content_type=JSON), 422, "VALIDATION_ERROR")
    assert (await client.get(f"{URL}/{talk}")).json() == before


async def test_a_fork_has_a_title_of_its_own_and_is_not_put_away(
    client: AsyncClient, talk: str
) -> None:
    body = {"title": "The sea", "pinned": True, "archived": True}
    await client.patch(f"{URL}/{talk}", body, content_type=JSON)
    same = shaped(
        await client.post(f"{URL}/{talk}/fork", {}, content_type=JSON), 201, schemas.SessionOut
    )
    assert same["title"] == "The sea"
    assert not {"pinned", "archived"} & same.keys()
    other = shaped(
        await client.post(f"{URL}/{talk}/fork", {"title": "The shore"}, content_type=JSON),
        201,
        schemas.SessionOut,
    )
    assert other["title"] == "The shore"


async def test_a_list_is_filtered_ordered_and_paged(client: AsyncClient, talk: str) -> None:
    made = [
        (
            await client.post(
                URL,
                {"model": "qwen3:14b", "title": title, "metadata": {"n": number}},
                content_type=JSON,
            )
        ).json()["session_id"]
        for number, title in enumerate(["Zebra", "ant", "Bear"])
    ]
    first = shaped(await client.get(f"{URL}?sort=title&limit=2"), 200, SessionListOut)
    rest = shaped(
        await client.get(f"{URL}?sort=title&cursor={first['next_cursor']}"),
        200,
        SessionListOut,
    )
    entries = [*first["sessions"], *rest["sessions"]]
    assert [one["title"] for one in entries if "title" in one] == ["ant", "Bear", "Zebra"]
    assert "next_cursor" not in rest or rest["next_cursor"] is None
    found = shaped(await client.get(f"{URL}?metadata.n=1"), 200, SessionListOut)
    assert [one["session_id"] for one in found["sessions"]] == [made[1]]
    for query in ("cursor=x", "sort=size", "order=up", "pinned=perhaps"):
        refused(await client.get(f"{URL}?{query}"), 422, "VALIDATION_ERROR")
