"""Serves the ``/agents`` routes."""

import asyncio
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Status

from agents_app.catalogue import AgentCatalogue
from agents_app.payloads import agent_detail, agents_payload, chat_detail, chats_payload
from agents_app.schemas import AgentChatDetailOut, AgentChatsOut, AgentDetailOut, AgentListOut
from agents_app.sessions import AgentChats
from mochi_project.app import service
from mochi_project.http.large_json import answer_by_reading
from mochi_project.routing import Router, needs
from sessions_app.http.error_schemas import ENVELOPE

router = Router(scope="read", changes="write", tags=["agents"])


@router.get(
    "/agents",
    response={200: AgentListOut},
    summary="List agents",
    description=(
        "All agents by name. One that can't be used has `valid: false`, and every reason in "
        "`error_message`. The first request imports their modules, in processes of their own; "
        "later ones notice what has changed."
    ),
    operation_id="list_agents",
)
async def list_agents(request: HttpRequest) -> dict[str, Any]:
    """List all agents, valid or not."""
    return agents_payload(await service(AgentCatalogue).list())


@router.post(
    "/agents/reload",
    response={200: AgentListOut, 507: ENVELOPE},
    summary="Reload the agents",
    description=(
        "Reads all agents again, in fresh processes, and lists them. Changes of `SKILL.md` and of "
        "modules are noticed without it; it is for what modules read beside themselves. Calls that "
        "run go on with the code that they began with. Other workers follow."
    ),
    operation_id="reload_agents",
)
@needs(scope="admin")
async def reload_agents(request: HttpRequest) -> dict[str, Any]:
    """Discover all agents again, and list them."""
    return agents_payload(await service(AgentCatalogue).reload())


# Before the route of one agent: `chats` and `reload` are no agents' names.
@router.get(
    "/agents/chats",
    response={200: AgentChatsOut, 503: ENVELOPE},
    summary="List agents' sessions",
    description=(
        "Most recently updated first. Each is made by a call of an agent, and kept until somebody "
        "deletes it."
    ),
    operation_id="list_agent_chats",
)
async def list_chats(request: HttpRequest) -> HttpResponseBase:
    """List the sessions of all agents."""
    chats = service(AgentChats)
    return await answer_by_reading(lambda: chats_payload(chats.list()))


@router.get(
    "/agents/chats/{session_id}",
    response={200: AgentChatDetailOut, (404, 500, 503): ENVELOPE},
    summary="Get an agent's session",
    description="Everything about it, with all its messages, as of any other session.",
    operation_id="get_agent_chat",
)
async def get_chat(request: HttpRequest, session_id: str) -> HttpResponseBase:
    """Return a session of an agent as a whole."""
    chats = service(AgentChats)
    return await answer_by_reading(lambda: chat_detail(chats.get(session_id)))


@router.delete(
    "/agents/chats/{session_id}",
    response={204: None, (404, 409, 500): ENVELOPE},
    summary="Delete an agent's session",
    description=(
        "Removes its file for good, also one that can't be read. 409 while the agent works in it. "
        "`DELETE /sessions/{session_id}?agents=true` deletes those of a session with it."
    ),
    operation_id="delete_agent_chat",
)
async def delete_chat(request: HttpRequest, session_id: str) -> Status[None]:
    """Remove a session of an agent."""
    await asyncio.to_thread(service(AgentChats).delete, session_id)
    return Status(204, None)


@router.get(
    "/agents/{agent_name}",
    response={200: AgentDetailOut, 404: ENVELOPE},
    summary="Get an agent",
    description=(
        "One agent with its system prompt and its tools. One that can't be used is answered too, "
        "with `valid: false` and the reasons; a call of it fails with `AGENT_INVALID`."
    ),
    operation_id="get_agent",
)
async def get_agent(request: HttpRequest, agent_name: str) -> dict[str, Any]:
    """Return one agent, valid or not."""
    return agent_detail(await service(AgentCatalogue).get(agent_name))
