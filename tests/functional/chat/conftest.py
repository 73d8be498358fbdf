"""Servers whose models are scripted in the test's own process, which sees what they are asked."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from scripted_app.server import ScriptedModelServer

VENDOR_MODELS = [
    "anthropic:claude-haiku-4-5",
    "openai:gpt-5.1",
    "openai:gpt-6-astra",
    "google:gemini-2.5-flash",
    "openrouter:qwen/qwen3-14b",
    "mine:qwen3:14b",
]
MODELS = ["qwen3:14b", *VENDOR_MODELS]
TOOL = '''
"""A tool that nobody has to run."""

__all__ = ["note"]


def note(text: str) -> str:
    """Write a line down.

    Args:
        text: The line.
    """
    return text
'''


class AskedModels:
    """A scripted model server on a loop and in a thread of its own.

    Attributes:
        url: Where it listens.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._server = ScriptedModelServer(words_per_second=0)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._do(self._server.start())
        self.url = self._server.url

    @property
    def requests(self) -> list[Any]:
        """The bodies of the last chat requests, oldest first."""
        return list(self._server.requests)

    @property
    def loads(self) -> int:
        """How often a model of Ollama was loaded."""
        return self._server.loads

    @property
    def variables(self) -> dict[str, str]:
        """What tells a server that every provider is here."""
        paths = {"OPENAI": "/v1", "ANTHROPIC": "", "GOOGLE": "", "OPENROUTER": "/api/v1"}
        return {
            "MOCHI_OLLAMA_HOST": self.url,
            "MOCHI_PROVIDERS__MINE__BASE_URL": f"{self.url}/v1",
            **{f"MOCHI_PROVIDERS__{name}__BASE_URL": self.url + paths[name] for name in paths},
        }

    def close(self) -> None:
        self._do(self._server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, what: Coroutine[Any, Any, None]) -> None:
        done: Future[None] = asyncio.run_coroutine_threadsafe(what, self._loop)
        done.result(timeout=10)


@pytest.fixture(scope="module")
def asked() -> Iterator[AskedModels]:
    """Return the models of every provider, which remember what they are asked."""
    models = AskedModels()
    yield models
    models.close()


@pytest.fixture
def calls() -> Callable[..., dict[str, Any]]:
    """Return how to script calls of tools: pairs of a name and arguments."""
    return lambda *named: {"tool_call": [{"name": name, "args": args} for name, args in named]}


@pytest.fixture(scope="module")
def two_workers(start_once):
    """Return a server of two web processes, with a tool that needs approval."""
    server = start_once("--workers", "2")
    tools = server.data_dir / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "notes.py").write_text(TOOL)
    return server
