"""Sessions over HTTP: listed."""

import asyncio
from pathlib import Path

import pytest
from django.test import AsyncClient

from sessions_app.http import schemas
from sessions_app.http.list_schemas import SessionListOut
from sessions_app.service import SessionManager
from sessions_app.session import with_metadata
from sessions_app.store.repository import Listing
from tests.unit.sessions_app.api.conftest import NOW, URL, refused, shaped
from tests.unit.sessions_app.running_at_once import RunningAtOnce


async def test_sessions_are_listed_with_what_is_unreadable(
    client: AsyncClient, talk: str, sessions_dir: Path
) -> None:
    (sessions_dir / "0000000000.json").touch()
    listed = shaped(await client.get(URL), 200, SessionListOut)
    assert listed["sessions"] == [
        {
            "session_id": talk,
            "model": "qwen3:14b",
            "created_at": NOW,
            "updated_at": NOW,
            "message_count": 4,
            "summary": None,
            "preview": "one",
            "state": "idle",
        }
    ]
    assert listed["total"] == 1
    assert listed["unreadable"] == [{"file": "0000000000.json", "reason": "empty"}]
    assert listed["complete"] is True


@pytest.fixture
def busy(manager: SessionManager) -> str:
    repository, session_id = manager.repository, manager.create("m").session_id
    owner = repository.owners.mine()
    turn = "0199f3a2b4c50000abcd"
    repository.claim(session_id, turn, owner=owner, change=lambda before: (before, None))
    return session_id


async def test_a_session_says_what_goes_on_in_it_and_lists_are_filtered_by_that(
    client: AsyncClient, talk: str, busy: str
) -> None:
    idle = talk
    listed = shaped(await client.get(URL), 200, SessionListOut)["sessions"]
    assert {one["session_id"]: one["state"] for one in listed} == {busy: "running", idle: "idle"}
    assert (
        shaped(await client.get(f"{URL}/{busy}"), 200, schemas.SessionDetailOut)["state"]
        == "running"
    )
    for state, expected in (("running", [busy]), ("idle", [idle])):
        page = (await client.get(f"{URL}?state={state}&limit=1")).json()
        assert [one["session_id"] for one in page["sessions"]] == expected
        assert page["total"] == len(expected)
    assert (await client.get(f"{URL}?state=busy")).status_code == 422


async def test_a_list_says_that_sessions_are_still_looked_for(
    client: AsyncClient, manager: SessionManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Listing(sessions=(), unreadable=(), complete=False)
    monkeypatch.setattr(manager.repository, "list", lambda: known)
    listed = shaped(await client.get(URL), 200, SessionListOut)
    assert (listed["total"], listed["complete"]) == (0, False)


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
        listed = shaped(await client.get(f"{URL}?{query}"), 200, SessionListOut)
        assert (len(listed["sessions"]), listed["total"]) == (count, total), query


@pytest.mark.parametrize(
    ("query", "field"), [("limit=0", "limit"), ("limit=x", "limit"), ("offset=-1", "offset")]
)
async def test_a_page_that_makes_no_sense_is_refused(
    client: AsyncClient, query: str, field: str
) -> None:
    assert refused(await client.get(f"{URL}?{query}"), 422, "VALIDATION_ERROR")["field"] == field


async def test_lists_of_clients_are_made_one_after_the_other(
    client: AsyncClient, manager: SessionManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = RunningAtOnce(manager.repository.list)
    monkeypatch.setattr(manager.repository, "list", listing)
    answers = await asyncio.gather(*(client.get(URL) for _ in range(4)))
    assert [answer.status_code for answer in answers] == [200] * 4
    assert listing.most == 1
