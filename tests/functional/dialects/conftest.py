"""Clients of the official ``openai`` package."""

from collections.abc import Callable, Iterator

import httpx
import pytest
from openai import OpenAI

from tests.functional.conftest import NO_TLS, Server

Connect = Callable[..., OpenAI]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Return how to make a client of a server, which repeats nothing by itself."""
    clients: list[OpenAI] = []

    def connect_to(server: Server, **options: object) -> OpenAI:
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
