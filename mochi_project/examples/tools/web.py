"""Searches and reads the web with Ollama's own service, which needs a key.

Set ``OLLAMA_API_KEY`` (https://ollama.com/settings/keys), and let tools see it:
``MOCHI_TOOL_ENVIRONMENT=OLLAMA_API_KEY``. What is searched for goes to ollama.com.
"""

import json
import os
from typing import Annotated, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from pydantic import Field

__all__ = ["web_fetch", "web_search"]
__web__ = ["web_search", "web_fetch"]
__destructive__: list[str] = []

ADDRESS = "https://ollama.com/api"
SECONDS = 30


def web_search(query: str, max_results: Annotated[int, Field(ge=1, le=10)] = 5) -> str:
    """Search the web.

    Args:
        query: What to search for.
        max_results: How many pages to return.
    """
    found = _ask("web_search", {"query": query, "max_results": max_results})
    pages = found.get("results") or []
    return "\n\n".join(
        f"{page.get('title')}\n{page.get('url')}\n{page.get('content')}" for page in pages
    )


def web_fetch(url: str) -> str:
    """Read a page of the web as text.

    Args:
        url: The address of the page.
    """
    page = _ask("web_fetch", {"url": url})
    return f"{page.get('title')}\n\n{page.get('content')}"


def _ask(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    key = os.environ.get("OLLAMA_API_KEY")
    if not key:
        raise RuntimeError(
            "There is no key: set OLLAMA_API_KEY, and MOCHI_TOOL_ENVIRONMENT=OLLAMA_API_KEY."
        )
    request = Request(  # noqa: S310 - the address is fixed
        f"{ADDRESS}/{name}",
        data=json.dumps(arguments).encode(),
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    try:
        with urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
            result: dict[str, Any] = json.load(answer)
    except HTTPError as error:
        raise RuntimeError(f"ollama.com refused it (HTTP {error.code}).") from error
    return result
