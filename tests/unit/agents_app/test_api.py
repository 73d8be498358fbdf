"""The /agents routes: shapes, order and errors."""

import msgspec
import pytest
from django.test import AsyncClient

from agents_app.catalogue import AgentCatalogue
from agents_app.schemas import AgentChatDetailOut, AgentChatsOut, AgentDetailOut
from agents_app.sessions import AgentChats
from mochi_project import urls  # noqa: F401 - so that no request imports it on the loop
from sessions_app.service import SessionManager
from tests.services import OneOwner, services_of

URL = "/api/v1/agents"


@pytest.fixture
def chats(agents_dir, folders) -> SessionManager:
    return SessionManager(agents_dir / "agent_chats")


@pytest.fixture
def client(catalogue, chats, monkeypatch) -> AsyncClient:
    services = services_of({AgentCatalogue: catalogue, AgentChats: chats})
    monkeypatch.setattr("mochi_project.app._pool", OneOwner(services))
    return AsyncClient()


def make_chat(chats: SessionManager, agent_name: str | None) -> str:
    session = chats.create("qwen3:14b", system_prompt="You are an agent.")
    if agent_name is not None:
        chats.repository.update(
            session.session_id,
            lambda found: msgspec.structs.replace(
                found,
                metadata=msgspec.structs.replace(found.metadata, extra={"agent_name": agent_name}),
            ),
        )
    return session.session_id


async def test_agents_are_listed_as_the_specification_shows(folders, client) -> None:
    folders.write_agent("coder")
    folders.write_agent("broken", skill=None)

    answer = await client.get(URL)

    assert answer.status_code == 200
    agents = answer.json()["agents"]
    assert list(agents) == ["broken", "coder"]
    assert agents["coder"] == {
        "name": "coder",
        "description": "Knows coder.",
        "model": None,
        "valid": True,
        "error_message": None,
        "tool_count": 1,
        "tools": ["tell"],
    }
    assert agents["broken"]["valid"] is False
    assert "SKILL.md is missing" in agents["broken"]["error_message"]


async def test_one_agent_has_its_prompt_and_its_tools(folders, client) -> None:
    folders.write_agent("coder", init="from .coder import tell\n__all__ = ['tell', 'no']")

    agent = (await client.get(f"{URL}/coder")).json()

    assert AgentDetailOut.model_validate(agent)
    assert agent["system_prompt"] == "You know coder."
    assert agent["tool_details"]["tell"]["parameters"] == {
        "text": {"type": "str", "description": "What to tell."}
    }
    assert [entry["name"] for entry in agent["invalid_tools"]] == ["no"]


async def test_an_invalid_agent_is_an_answer_and_an_unknown_one_is_not(folders, client) -> None:
    folders.write_agent("broken", init=None)

    broken = await client.get(f"{URL}/broken")
    unknown = await client.get(f"{URL}/nobody")

    assert (broken.status_code, broken.json()["valid"]) == (200, False)
    assert unknown.status_code == 404
    assert unknown.json()["error"]["code"] == "AGENT_NOT_FOUND"


@pytest.mark.parametrize("name", ["..", "%2e%2e", "..%2f..", "a%00", "_draft", "agent_chats"])
async def test_no_name_leads_out_of_the_folder(folders, client, name: str) -> None:
    folders.write_agent("_draft")

    assert (await client.get(f"{URL}/{name}")).status_code == 404


async def test_reload_lists_what_is_there_now(folders, client) -> None:
    assert (await client.get(URL)).json() == {"agents": {}}
    folders.write_agent("coder")

    answer = await client.post(f"{URL}/reload")

    assert answer.status_code == 200
    assert list(answer.json()["agents"]) == ["coder"]
    assert (await client.get(f"{URL}/reload")).status_code == 405


async def test_sessions_of_agents_are_listed_with_their_agents(folders, chats, client) -> None:
    ids: list[str] = []
    folders.do(lambda: ids.extend([make_chat(chats, "coder"), make_chat(chats, None)]))
    folders.put(folders.agents_dir / "agent_chats" / "00000000ff.json", "")

    listed = (await client.get(f"{URL}/chats")).json()

    assert AgentChatsOut.model_validate(listed)
    assert {chat["session_id"]: chat["agent_name"] for chat in listed["chats"]} == {
        ids[0]: "coder",
        ids[1]: None,
    }
    assert [entry["file"] for entry in listed["unreadable"]] == ["00000000ff.json"]


async def test_a_session_of_an_agent_is_a_session(folders, chats, client) -> None:
    ids: list[str] = []
    folders.do(lambda: ids.append(make_chat(chats, "coder")))

    answer = await client.get(f"{URL}/chats/{ids[0]}")

    assert answer.status_code == 200
    assert AgentChatDetailOut.model_validate(answer.json())
    assert answer.json()["agent_name"] == "coder"
    assert answer.json()["messages"][0]["content"] == "You are an agent."


@pytest.mark.parametrize("session_id", ["0000000000", "x", "..", "..%2f..%2fsecret", "0" * 11])
async def test_other_ids_lead_to_no_session(client, session_id: str) -> None:
    answer = await client.get(f"{URL}/chats/{session_id}")

    assert answer.status_code == 404


async def test_no_sessions_yet_is_an_empty_list(client) -> None:
    assert (await client.get(f"{URL}/chats")).json() == {
        "chats": [],
        "unreadable": [],
        "complete": True,
    }


async def test_a_session_of_an_agent_is_deleted_for_good(folders, chats, client) -> None:
    ids: list[str] = []
    folders.do(lambda: ids.append(make_chat(chats, "coder")))

    deleted = await client.delete(f"{URL}/chats/{ids[0]}")

    assert (deleted.status_code, deleted.content) == (204, b"")
    assert (await client.get(f"{URL}/chats")).json()["chats"] == []
    again = await client.delete(f"{URL}/chats/{ids[0]}")
    assert (again.status_code, again.json()["error"]["code"]) == (404, "SESSION_NOT_FOUND")
