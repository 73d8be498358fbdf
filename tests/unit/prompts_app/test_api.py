from urllib.parse import quote

import pytest
from django.test import AsyncClient

URL = "/api/v1/system-prompts"


async def test_a_prompt_can_be_created_read_listed_updated_and_deleted(client: AsyncClient) -> None:
    new = {"filename": "helpful.md", "content": "Be helpful."}
    created = await client.post(URL, new, content_type="application/json")
    assert (created.status_code, created.json()) == (201, new)

    listed = await client.get(URL)
    assert listed.status_code == 200
    assert listed.json() == {
        "prompts": [{"filename": "helpful.md", "preview": "Be helpful.", "word_count": 2}]
    }

    updated = await client.put(
        f"{URL}/helpful.md", {"content": "Be brief."}, content_type="application/json"
    )
    assert updated.status_code == 200
    assert updated.json() == {"filename": "helpful.md", "content": "Be brief."}
    assert (await client.get(f"{URL}/helpful.md")).json() == updated.json()

    deleted = await client.delete(f"{URL}/helpful.md")
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert (await client.get(URL)).json() == {"prompts": []}


async def test_a_taken_name_is_a_conflict(client: AsyncClient) -> None:
    for content in ("first", "second"):
        body = {"filename": "a.md", "content": content}
        answer = await client.post(URL, body, content_type="application/json")
    assert answer.status_code == 409
    assert answer.json()["error"]["code"] == "PROMPT_EXISTS"
    assert (await client.get(f"{URL}/a.md")).json()["content"] == "first"


async def test_an_unknown_prompt_is_not_found(client: AsyncClient) -> None:
    url = f"{URL}/missing.md"
    for answer in (
        await client.get(url),
        await client.delete(url),
        await client.put(url, {"content": "text"}, content_type="application/json"),
    ):
        assert answer.status_code == 404
        error = answer.json()["error"]
        assert error["code"] == "PROMPT_NOT_FOUND"
        assert error["details"] == {"filename": "missing.md", "retryable": False}


@pytest.mark.parametrize("name", ["..", "a.md\n", "a\x00.md", "..\\a.md", "a.exe", ".a.md"])
async def test_a_hostile_name_in_the_path_is_refused(client: AsyncClient, name: str) -> None:
    answer = await client.get(f"{URL}/{quote(name, safe='')}")
    assert answer.status_code == 422
    assert answer.json()["error"]["details"]["field"] == "filename"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"filename": "../a.md", "content": "text"}, "filename"),
        ({"filename": "a.md", "content": "  "}, "content"),
        ({"filename": "a.md", "content": "x" * 10_000}, "content"),
    ],
)
async def test_an_invalid_prompt_is_refused_by_field(
    client: AsyncClient, body: dict[str, str], field: str
) -> None:
    answer = await client.post(URL, body, content_type="application/json")
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "VALIDATION_ERROR"
    assert answer.json()["error"]["details"]["field"] == field
    assert (await client.get(URL)).json() == {"prompts": []}
