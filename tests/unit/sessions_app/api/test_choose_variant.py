"""Variants of answers over HTTP: shown when they are asked for, and chosen."""

import asyncio
from typing import Any

import pytest
from django.test import AsyncClient

from sessions_app.http import schemas
from sessions_app.messages import AssistantMessage
from sessions_app.service import SessionManager
from sessions_app.session import Session
from sessions_app.variants import extend_answer
from tests.unit.sessions_app.api.conftest import JSON, NOW, URL, refused, shaped


@pytest.fixture
def regenerated(manager: SessionManager, talk: str) -> str:
    """Return a session of four messages whose last answer was made again."""
    new = AssistantMessage(content="new", message_id="new", timestamp=NOW)

    def regenerate(session: Session) -> Session:
        old = session.messages[-1].message_id
        return extend_answer(session, new, now=NOW, replaced_id=old)

    manager.repository.update(talk, regenerate)
    return talk


async def messages(client: AsyncClient, session_id: str, query: str = "") -> list[dict[str, Any]]:
    answer = await client.get(f"{URL}/{session_id}/messages{query}")
    body: list[dict[str, Any]] = shaped(answer, 200, schemas.MessagesOut)["messages"]
    return body


async def choose(client: AsyncClient, session_id: str, index: object, **body: Any) -> Any:
    url = f"{URL}/{session_id}/messages/{index}/variant"
    return await client.put(url, body, content_type=JSON)


async def test_variants_are_counted_and_shown_when_they_are_asked_for(
    client: AsyncClient, regenerated: str
) -> None:
    *_, counted = await messages(client, regenerated)
    assert (counted["content"], counted["variant_count"]) == ("new", 1)
    assert "variants" not in counted
    *others, shown = await messages(client, regenerated, "?variants=true")
    [[variant]] = shown.pop("variants")
    assert shown == counted
    assert (variant["content"], variant["message_id"]) == ("answer", "0000000003")
    assert not any("variant_count" in message for message in others)
    detail = shaped(await client.get(f"{URL}/{regenerated}"), 200, schemas.SessionDetailOut)
    assert detail["messages"][-1] == counted
    assert detail["message_count"] == 4


async def test_a_variant_is_made_the_answer_and_back(client: AsyncClient, regenerated: str) -> None:
    before = await messages(client, regenerated, "?variants=true")
    for _ in range(2):  # doing it twice is doing it once
        chosen = shaped(
            await choose(client, regenerated, 3, message_id="0000000003"),
            200,
            schemas.VariantOut,
        )
        assert (chosen["message_index"], chosen["message_count"]) == (3, 4)
        assert [message["content"] for message in chosen["messages"]] == ["answer"]
        assert chosen["messages"] == (await messages(client, regenerated))[3:]
    await choose(client, regenerated, 3, message_id="new")
    assert await messages(client, regenerated, "?variants=true") == before


@pytest.mark.parametrize(
    ("index", "body", "status", "code"),
    [
        (1, {"message_id": "0000000001"}, 400, "INVALID_MESSAGE_INDEX"),
        (2, {"message_id": "0000000003"}, 400, "INVALID_MESSAGE_INDEX"),
        (9, {"message_id": "0000000003"}, 400, "INVALID_MESSAGE_INDEX"),
        (-1, {"message_id": "0000000003"}, 400, "INVALID_MESSAGE_INDEX"),
        ("x", {"message_id": "0000000003"}, 409, "MESSAGE_CHANGED"),
        (3, {"message_id": "nope"}, 404, "VARIANT_NOT_FOUND"),
        (3, {"message_id": 3}, 422, "VALIDATION_ERROR"),
        (3, {"variant": 0}, 422, "VALIDATION_ERROR"),
        (3, {}, 422, "VALIDATION_ERROR"),
    ],
)
async def test_what_can_not_be_chosen_changes_nothing(
    client: AsyncClient, regenerated: str, index: object, body: Any, status: int, code: str
) -> None:
    before = await messages(client, regenerated, "?variants=true")
    refused(await choose(client, regenerated, index, **body), status, code)
    assert await messages(client, regenerated, "?variants=true") == before


async def test_a_fork_and_an_export_carry_the_variants(
    client: AsyncClient, manager: SessionManager, regenerated: str
) -> None:
    answer = await client.post(f"{URL}/{regenerated}/fork", {}, content_type=JSON)
    copy = answer.json()["session_id"]
    assert await messages(client, copy, "?variants=true") == await messages(
        client, regenerated, "?variants=true"
    )
    exported = await asyncio.to_thread(manager.export, regenerated)
    assert '"variants"' in exported
    told = await asyncio.to_thread(manager.export, regenerated, format="markdown")
    assert told.count("## Assistant") == 2


async def test_an_edit_cuts_variants_off_too(client: AsyncClient, regenerated: str) -> None:
    await client.put(f"{URL}/{regenerated}/messages/2", {"content": "x"}, content_type=JSON)
    assert "new" not in str(await messages(client, regenerated, "?variants=true"))
