"""Responses as the official package asks for them, and what the server keeps of them."""

import shutil
import time
from typing import Any

import httpx
import openai
from pydantic import BaseModel

from mochi_server.testing import MODEL, MochiServer, Reply, ToolCall
from tests.functional.conftest import NO_TLS

TOOLS = '''
"""Tools of this server."""

__all__ = ["add", "wipe"]
__destructive__ = ["wipe"]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def wipe(path: str) -> str:
    """Remove a file."""
    return f"wiped {path}"
'''
SKILL = """\
---
description: Takes notes.
---
You take notes.
"""
OURS: Any = {"type": "mcp", "server_label": "mochi", "require_approval": "never"}
ASKING: Any = {**OURS, "require_approval": "always", "allowed_tools": ["wipe"]}
WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "Tell the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}


class Person(BaseModel):
    name: str
    age: int


CALL_WEATHER = Reply(tool_calls=[ToolCall("get_weather", {"city": "Paris"})])
CALL_WIPE = Reply("I will.", tool_calls=[ToolCall("wipe", {"path": "x"})])


def furnish(server: MochiServer) -> MochiServer:
    """Give a server tools and an agent."""
    (server.data_dir / "tools").mkdir(exist_ok=True)
    (server.data_dir / "tools" / "own.py").write_text(TOOLS)
    clerk = server.data_dir / "agents" / "clerk"
    clerk.mkdir(parents=True)
    (clerk / "SKILL.md").write_text(SKILL)
    (clerk / "__init__.py").write_text('from .clerk import add\n\n__all__ = ["add"]\n')
    (clerk / "clerk.py").write_text(TOOLS)
    return server


def respond(client: openai.OpenAI, said: Any = "Hello!", **fields: Any) -> Any:
    return client.responses.create(model=MODEL, input=said, **fields)


def asked_of_model(server: MochiServer) -> list[tuple[str, str]]:
    """Return what the model was sent last."""
    return [(each["role"], each["content"]) for each in server.model_requests[-1]["messages"]]


def native(server: MochiServer, path: str) -> Any:
    return httpx.get(f"{server.api_url}{path}", trust_env=False, verify=NO_TLS, timeout=30).json()


def sessions(server: MochiServer) -> list[str]:
    return [each["session_id"] for each in native(server, "/sessions")["sessions"]]


def session_of(response: Any) -> str:
    session_id: str = response.id.removeprefix("resp_")[:10]
    return session_id


def sweep(server: MochiServer, response: Any) -> None:
    """Remove the events of a response, once all that is kept of it is there."""
    turn_id = response.id[-20:]
    if response.error is not None:
        end = server.data_dir / "responses" / session_of(response) / f"{turn_id}.end"
        deadline = time.monotonic() + 30
        while not end.exists():
            assert time.monotonic() < deadline, "its end was not kept"
            time.sleep(0.01)
    shutil.rmtree(server.data_dir / ".mochi" / "turns" / session_of(response))
