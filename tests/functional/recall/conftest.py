"""A server whose conversations models and MCP clients may recall."""

from collections.abc import Callable
from typing import Any

import pytest

SECRET = "The lighthouse of Hiiumaa stands since 1531."


@pytest.fixture(scope="module")
def server(start_once: Callable[..., Any]) -> Any:
    """Return a server with MCP's door open."""
    return start_once(MOCHI_MCP_SERVER="true", MOCHI_API_TOKEN="")


@pytest.fixture(scope="module")
def earlier(server: Any) -> str:
    """Return a session in which something was said."""
    chat = server.chat()
    session_id = chat.new_session(title="Lighthouses")
    chat.say(session_id, SECRET)
    return session_id
