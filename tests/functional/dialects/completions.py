"""Chat completions as the official package asks for them, and what the server keeps of them."""

import time
from typing import Any

import httpx
import openai
from pydantic import BaseModel

from mochi_server.testing import MODEL, MochiServer
from tests.functional.conftest import NO_TLS

TOOLS = '''
"""Tools of this server."""

__all__ = ["add", "wipe"]
__destructive__ = ["wipe"]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def wipe() -> str:
    """Remove everything."""
    return "wiped"
'''
HELLO: Any = {"role": "user", "content": "Hello!"}


class Weather(BaseModel):
    """Tell the weather of a city."""

    city: str


WEATHER: Any = [openai.pydantic_function_tool(Weather)]


def native(server: MochiServer, path: str) -> Any:
    return httpx.get(f"{server.api_url}{path}", trust_env=False, verify=NO_TLS, timeout=30).json()


def saved(server: MochiServer) -> int:
    return len(native(server, "/sessions")["sessions"])


def messages(server: MochiServer, session_id: str) -> list[Any]:
    return native(server, f"/sessions/{session_id}/messages")["messages"]


def complete(client: openai.OpenAI, *said: Any, **fields: Any) -> Any:
    fields = {"model": MODEL, "messages": list(said) or [HELLO], **fields}
    return client.chat.completions.create(**fields)


def with_headers(client: openai.OpenAI, *said: Any, **fields: Any) -> tuple[Any, Any]:
    """Return a completion, and the headers that it came with."""
    fields = {"model": MODEL, "messages": list(said) or [HELLO], **fields}
    raw = client.chat.completions.with_raw_response.create(**fields)
    return raw.parse(), raw.headers


def wait_for_answer(scripted: MochiServer, session_id: str) -> Any:
    """Return the last message of a session, once it is the model's."""
    deadline = time.monotonic() + 60
    while (last := messages(scripted, session_id)[-1])["role"] != "assistant":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return last


def listed_at_ollama(server: Any, *names: str) -> dict[str, Any]:
    """Return the models in Ollama's list by name, once it has all of these.

    What does not answer within two seconds is left out of a list.
    """
    url, deadline = f"{server.url}/ollama/api/tags", time.monotonic() + 60
    while True:
        answer = httpx.get(url, trust_env=False, verify=NO_TLS, timeout=60).json()
        models = {each["model"]: each for each in answer.get("models", ())}
        if models.keys() >= set(names):
            return models
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)
