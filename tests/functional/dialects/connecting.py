"""How clients reach a certain web process of a server."""

from contextlib import suppress

import httpx
import openai

from tests.functional.conftest import NO_TLS


def client_at(server, number, connect):
    """Return a client whose connection is to this web process, until it was idle for 5 s."""
    client = connect(server)

    def ask():
        with suppress(openai.NotFoundError):
            client.responses.retrieve("resp_none")

    _have_answered_by(server, number, ask)
    return client


def http_at(server, number):
    """Return the same for paths below ``/api/v1``."""
    url = f"{server.url}/api/v1"
    client = httpx.Client(base_url=url, trust_env=False, verify=NO_TLS, timeout=60)
    _have_answered_by(server, number, lambda: client.get("/health"))
    return client


def _have_answered_by(server, number, ask):
    workers = sorted(server.web_processes, key=lambda worker: worker.pid)
    others = [worker for worker in workers if worker.pid != workers[number].pid]
    for worker in others:
        worker.suspend()
    try:
        ask()
    finally:
        for worker in others:
            worker.resume()
