"""Messages over HTTP: deleted, hidden from the model, shown again."""

import asyncio
from typing import Any

import pytest
from django.test import AsyncClient

from sessions_app.http.deletion_schemas import MessageDeletedOut, MessageHiddenOut
from sessions_app.service import SessionManager
from tests.claims import claim_session
from tests.unit.sessions_app.api.conftest import JSON, URL, refused, shaped


async def messages_of(client: AsyncClient, session_id: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = (await client.get(f"{URL}/{session_id}/messages")).json()[
        "messages"
    ]
    return listed


async def test_a_deleted_message_is_gone_and_the_others_stay(
    client: AsyncClient, talk: str
) -> None:
    [_, answer, *_] = await messages_of(client, talk)
    url = f"{URL}/{talk}/messages/1?message_id={answer['message_id']}"
    body = shaped(await client.delete(url), 200, MessageDeletedOut)
    assert (body["message_index"], body["deleted"]) == (1, [answer["message_id"]])
    assert body["message_count"] == 3
    left = await messages_of(client, talk)
    assert [message["content"] for message in left] == ["one", "two", "answer"]
    assert refused(await client.delete(url), 409, "MESSAGE_CHANGED")["message_index"] == 1


async def test_a_hidden_message_stays_in_lists_and_says_so(client: AsyncClient, talk: str) -> None:
    url = f"{URL}/{talk}/messages/2"
    for hidden in (True, True, False):
        answer = await client.patch(url, {"hidden": hidden}, content_type=JSON)
        body = shaped(answer, 200, MessageHiddenOut)
        assert (body["message_index"], body["message_count"]) == (2, 4)
        assert [message.get("hidden", False) for message in body["messages"]] == [hidden]
        shown = [message.get("hidden", False) for message in await messages_of(client, talk)]
        assert shown == [False, False, hidden, False]


@pytest.mark.parametrize("body", [{}, {"hidden": None}, {"hidden": "yes"}, {"hidden": 1}])
async def test_what_does_not_say_whether_to_hide_is_refused(
    client: AsyncClient, talk: str, body: dict[str, Any]
) -> None:
    answer = await client.patch(f"{URL}/{talk}/messages/0", body, content_type=JSON)
    assert refused(answer, 422, "VALIDATION_ERROR")["field"] == "hidden"


async def test_another_message_than_the_one_that_is_meant_is_left_alone(
    client: AsyncClient, talk: str
) -> None:
    url = f"{URL}/{talk}/messages/0"
    body = {"hidden": True, "message_id": "ffffffffff"}
    refused(await client.patch(url, body, content_type=JSON), 409, "MESSAGE_CHANGED")
    refused(await client.delete(f"{url}?message_id=ffffffffff"), 409, "MESSAGE_CHANGED")
    refused(await client.delete(f"{URL}/{talk}/messages/4"), 400, "INVALID_MESSAGE_INDEX")
    assert len(await messages_of(client, talk)) == 4


async def test_the_system_prompt_has_a_route_of_its_own(client: AsyncClient, talk: str) -> None:
    await client.put(f"{URL}/{talk}/system-prompt", {"content": "Be brief."}, content_type=JSON)
    url = f"{URL}/{talk}/messages/0"
    refused(await client.delete(url), 400, "INVALID_MESSAGE_INDEX")
    answer = await client.patch(url, {"hidden": True}, content_type=JSON)
    assert refused(answer, 400, "INVALID_MESSAGE_INDEX")["role"] == "system"


async def test_while_a_turn_runs_messages_stay_as_they_are(
    client: AsyncClient, talk: str, manager: SessionManager
) -> None:
    await asyncio.to_thread(claim_session, manager.repository, talk, "t1")
    url = f"{URL}/{talk}/messages/0"
    refused(await client.delete(url), 409, "SESSION_BUSY")
    refused(await client.patch(url, {"hidden": True}, content_type=JSON), 409, "SESSION_BUSY")
