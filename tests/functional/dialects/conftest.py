"""Clients of the official ``openai`` package, and servers whose models say what a test wants."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest
from openai import OpenAI

from mochi_server.testing import MochiServer
from scripted_app.thread import ScriptedModelThread
from tests.functional.conftest import NO_TLS, Server, StartServer
from tests.functional.dialects.completions import TOOLS

Connect = Callable[..., OpenAI]
ServeOnce = Callable[..., MochiServer]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Return how to make a client of a server, which repeats nothing by itself."""
    clients: list[OpenAI] = []

    def connect_to(server: Server | MochiServer, **options: object) -> OpenAI:
        http = httpx.Client(trust_env=False, verify=NO_TLS, timeout=60)
        settings = {"api_key": "none", "max_retries": 0, **options}
        clients.append(OpenAI(base_url=f"{server.url}/v1", http_client=http, **settings))
        return clients[-1]

    yield connect_to
    for client in clients:
        client.close()


@pytest.fixture
def openai(server: Server, connect: Connect) -> OpenAI:
    """Return a client of the module's server."""
    return connect(server)


@pytest.fixture(scope="module")
def serve_once(start_once: StartServer) -> Iterator[ServeOnce]:
    """Start servers that end with the module; tests script their models, which show requests."""
    with ExitStack() as models:

        def serve(*flags: str, **variables: str) -> MochiServer:
            model = ScriptedModelThread()
            url = model.start()
            models.callback(model.stop)
            server = start_once(*flags, MOCHI_TEST_MODEL_URL=url, **variables)
            return MochiServer(server.url, server.data_dir, model, server.log)

        yield serve


@pytest.fixture(scope="module")
def scripted_once(serve_once: ServeOnce) -> MochiServer:
    """Return one server for all tests of a module, with tools of its own."""
    server = serve_once()
    (server.data_dir / "tools").mkdir()
    (server.data_dir / "tools" / "own.py").write_text(TOOLS)
    return server


@pytest.fixture
def scripted(scripted_once: MochiServer) -> MochiServer:
    """Return the module's server, with nothing left of what another test has scripted."""
    scripted_once.reset()
    return scripted_once


@pytest.fixture
def client(scripted: MochiServer, connect: Connect) -> OpenAI:
    """Return a client of that server."""
    return connect(scripted)
