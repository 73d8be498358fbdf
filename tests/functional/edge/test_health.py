"""What ``/health`` tells, and whom."""

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from mochi_project.configuration.constants import WINGS

pytestmark = pytest.mark.conformance

StartEdge = Callable[..., Any]


def test_health_waits_for_no_silent_model_server_and_tells_no_credentials(
    start_edge: StartEdge,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never answers
        host = f"http://user:pass-canary@127.0.0.1:{silent.getsockname()[1]}"
        with start_edge(MOCHI_OLLAMA_HOST=host).client() as client:
            response = client.get("/api/v1/health")
    health = response.json()
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "canary" not in json.dumps(health)
    assert health == {
        "status": "ok",
        "ollama_connected": False,
        "ollama_host": f"http://127.0.0.1:{silent_port(host)}",
        "version": health["version"],
        "journal": "files",
        "sessions": "files",
        "worker_alive": False,
        "summaries_failing": 0,
        "test_mode": False,
        "providers": ["ollama"],
        "apps": list(WINGS),
    }


def silent_port(host: str) -> str:
    return host.rpartition(":")[2]


def test_health_tells_strangers_that_it_works_and_nothing_else(start_edge: StartEdge) -> None:
    with start_edge(MOCHI_API_TOKEN="t0ken").client() as client:
        for headers in ({}, {"authorization": "Bearer wrong"}):
            assert client.get("/api/v1/health", headers=headers).json() == {"status": "ok"}
        told = client.get("/api/v1/health", headers={"authorization": "Bearer t0ken"}).json()
        assert {"status", "ollama_host", "version"} < told.keys()


def test_health_tells_clients_of_a_proxy_nothing_that_it_may_not_pass_on(
    start_edge: StartEdge,
) -> None:
    forwarded = {"x-forwarded-for": "203.0.113.7"}
    with start_edge().client() as client:
        assert client.get("/api/v1/health", headers=forwarded).json() == {"status": "ok"}
        assert "ollama_host" in client.get("/api/v1/health").json()
