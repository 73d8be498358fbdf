"""The search over HTTP."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import AsyncClient

import mochi_project.urls  # noqa: F401 - not within the first request
from search_app.places import SearchPlaces
from search_app.schemas import SearchOut
from search_app.service import SessionSearch
from tests.services import install_services, services_of
from tests.unit.conftest import NOW
from tests.unit.search_app.conftest import Archive
from tests.unit.sessions_app.running_at_once import RunningAtOnce

URL = "/api/v1/search"


@pytest.fixture
def client(archive: Archive) -> Iterator[AsyncClient]:
    services = services_of({SessionSearch: archive.search, SearchPlaces: asyncio.Semaphore(1)})
    install_services(services)
    yield AsyncClient()
    install_services(None)


async def search(client: AsyncClient, **parameters: Any) -> dict[str, Any]:
    answer: Any = await client.get(URL, parameters)
    assert answer.status_code == 200, answer.content
    body: dict[str, Any] = answer.json()
    SearchOut.model_validate(body)
    return body


async def test_results_say_where_the_words_are(client: AsyncClient, archive: Archive) -> None:
    await asyncio.to_thread(archive.keep, "a1b2c3d4e5", "Where is <b>Köln</b>?", "On the Rhine.")
    body = await search(client, q="koln")
    assert body.pop("took_ms") >= 0
    [result] = body.pop("results")
    assert body == {
        "total_estimate": 1, "index": "scan", "complete": True, "next_cursor": None
    }  # fmt: skip
    assert result.pop("score") > 0
    assert result == {
        "session_id": "a1b2c3d4e5",
        "message_index": 0,
        "message_id": "0000000000",
        "role": "user",
        "timestamp": NOW,
        "snippet": "Where is <b>Köln</b>?",
        "pieces": [
            {"text": "Where is <b>", "match": False},
            {"text": "Köln", "match": True},
            {"text": "</b>?", "match": False},
        ],
        "session": {
            "title": None,
            "preview": "Where is <b>Köln</b>?",
            "model": "qwen3:14b",
            "updated_at": NOW,
        },
    }


async def test_pages_have_cursors(client: AsyncClient, archive: Archive) -> None:
    await asyncio.to_thread(archive.keep, "a1b2c3d4e5", "one", "one", "one")
    first = await search(client, q="one", limit=2)
    assert [result["message_index"] for result in first["results"]] == [2, 1]
    second = await search(client, q="one", limit=2, cursor=first["next_cursor"])
    assert [result["message_index"] for result in second["results"]] == [0]
    assert second["next_cursor"] is None


@pytest.mark.parametrize(
    ("parameters", "count"),
    [
        ({"from": "2026-11-21", "to": "2026-11-21"}, 1),
        ({"from": "2026-11-21T12:00:00+02:00"}, 1),
        ({"from": "2026-11-21T10:00:01Z"}, 0),
        ({"to": "2026-11-20"}, 0),
        ({"role": "tool"}, 0),
        ({"model": "qwen3:14b"}, 1),
    ],
)
async def test_results_are_filtered(
    client: AsyncClient, archive: Archive, parameters: dict[str, str], count: int
) -> None:
    await asyncio.to_thread(archive.keep, "a1b2c3d4e5", "one")
    assert len((await search(client, q="one", **parameters))["results"]) == count


@pytest.mark.parametrize("q", ['"', "-", "a-b", "NEAR(", "col:x", "*", "日", "\x00", "a AND"])
async def test_anything_is_a_query(client: AsyncClient, archive: Archive, q: str) -> None:
    await asyncio.to_thread(archive.keep, "a1b2c3d4e5", "one")
    await asyncio.to_thread(archive.updater.fill)
    assert (await search(client, q=q))["results"] == []


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({}, "q"),
        ({"q": ""}, "q"),
        ({"q": "x" * 501}, "q"),
        ({"q": "x", "from": "yesterday"}, "from"),
        ({"q": "x", "to": "9999-12-31"}, "to"),
        ({"q": "x", "cursor": "x"}, "cursor"),
        ({"q": "x", "role": "pirate"}, "role"),
        ({"q": "x", "limit": "0"}, "limit"),
    ],
)
async def test_wrong_parameters_are_named(
    client: AsyncClient, parameters: dict[str, str], field: str
) -> None:
    answer: Any = await client.get(URL, parameters)
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error["code"] == "VALIDATION_ERROR"
    assert field in str(error["details"])


async def test_searches_of_clients_come_one_after_the_other(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, client: AsyncClient
) -> None:
    searching = RunningAtOnce(archive.search.search)
    monkeypatch.setattr(archive.search, "search", searching)
    await asyncio.gather(*(search(client, q="word") for _ in range(4)))
    assert searching.most == 1


async def test_a_query_of_too_many_phrases_is_refused(
    client: AsyncClient, archive: Archive
) -> None:
    await asyncio.to_thread(archive.keep, "a1b2c3d4e5", "a-b " * 40)
    phrases = [f"a{number}-b" for number in range(33)]
    answer: Any = await client.get(URL, {"q": " ".join(phrases)})
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert (error["details"]["field"], error["details"]["limit"]) == ("q", 32)
    words = [f"w{number}" for number in range(60)]
    await search(client, q=" ".join([*phrases[1:], *words]))
