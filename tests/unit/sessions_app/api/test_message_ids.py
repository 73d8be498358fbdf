"""Messages that are named by their ids, where an index would do, too."""

import pytest
from django.test import AsyncClient

from sessions_app.http import schemas
from sessions_app.http.deletion_schemas import MessageDeletedOut, MessageHiddenOut
from tests.unit.sessions_app.api.conftest import JSON, URL, refused, shaped

# Digits alone, as ids may be, are no index.
FIRST, ANSWER, SECOND, LAST = (f"000000000{number}" for number in range(4))


async def contents(client: AsyncClient, session_id: str) -> list[str]:
    listed = (await client.get(f"{URL}/{session_id}/messages")).json()["messages"]
    return [message["content"] for message in listed]


async def test_a_message_is_edited_by_its_id(client: AsyncClient, talk: str) -> None:
    url = f"{URL}/{talk}/messages/{SECOND}"
    body = {"content": "three", "message_id": SECOND}
    edited = shaped(await client.put(url, body, content_type=JSON), 200, schemas.MessageEditOut)
    assert (edited["message_index"], edited["message"]["message_id"]) == (2, SECOND)
    assert await contents(client, talk) == ["one", "answer", "three"]


async def test_messages_are_hidden_and_deleted_by_their_ids(client: AsyncClient, talk: str) -> None:
    url = f"{URL}/{talk}/messages/{ANSWER}"
    answer = await client.patch(url, {"hidden": True}, content_type=JSON)
    assert shaped(answer, 200, MessageHiddenOut)["message_index"] == 1
    assert shaped(await client.delete(url), 200, MessageDeletedOut)["deleted"] == [ANSWER]
    assert await contents(client, talk) == ["one", "two", "answer"]


async def test_the_answer_whose_variant_is_chosen_has_an_id(client: AsyncClient, talk: str) -> None:
    url = f"{URL}/{talk}/messages/{LAST}/variant"
    chosen = await client.put(url, {"message_id": LAST}, content_type=JSON)
    assert shaped(chosen, 200, schemas.VariantOut)["message_index"] == 3


@pytest.mark.parametrize("body", [{"message_id": ANSWER}, {"message_index": 1, "message_id": None}])
async def test_a_session_is_forked_at_a_message(
    client: AsyncClient, talk: str, body: dict[str, object]
) -> None:
    forked = await client.post(f"{URL}/{talk}/fork", body, content_type=JSON)
    copy = shaped(forked, 201, schemas.SessionOut)
    assert await contents(client, copy["session_id"]) == ["one", "answer"]


async def test_a_fork_at_an_id_and_an_index_is_refused(client: AsyncClient, talk: str) -> None:
    body = {"message_index": 1, "message_id": ANSWER}
    answer = await client.post(f"{URL}/{talk}/fork", body, content_type=JSON)
    assert refused(answer, 422, "VALIDATION_ERROR")["field"] == "message_index"


async def test_an_id_that_is_not_there_changes_nothing(client: AsyncClient, talk: str) -> None:
    url = f"{URL}/{talk}/messages/ffffffffff"
    body = {"content": "x"}
    refused(await client.put(url, body, content_type=JSON), 409, "MESSAGE_CHANGED")
    refused(await client.patch(url, {"hidden": True}, content_type=JSON), 409, "MESSAGE_CHANGED")
    refused(await client.delete(url), 409, "MESSAGE_CHANGED")
    choice = {"message_id": LAST}
    refused(await client.put(f"{url}/variant", choice, content_type=JSON), 409, "MESSAGE_CHANGED")
    fork = {"message_id": "ffffffffff"}
    refused(
        await client.post(f"{URL}/{talk}/fork", fork, content_type=JSON), 409, "MESSAGE_CHANGED"
    )
    assert await contents(client, talk) == ["one", "answer", "two", "answer"]
