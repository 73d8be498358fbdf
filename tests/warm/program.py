"""Forks the processes of the suite, and what starts their servers, from one that is warm.

Each process of the suite would import Django, pydantic, the vendors' clients and pytest itself, and
have a fork server (``tests/functional/fork_server.py``) import most of it a second time. This
program imports it once (docs/decisions/0104). It has two sockets: who connects to the first gets a
fork server of its own; who connects to the second, one whose forks have imported the vendors'
clients and what tests use as well: the processes of the suite, and servers that ask vendors.
"""

import gc
import importlib
import os
import select
import signal
import socket
import sys
import types
from contextlib import suppress

from tests.functional import fork_server

TEST_MODULES = (
    "aiohttp.web",
    "anthropic",
    "anyio._backends._asyncio",
    "anyio.pytest_plugin",
    "blockbuster",
    "boto3",
    "django.test.client",
    "execnet.gateway_base",
    "fastapi.testclient",
    "google.genai",
    "hypothesis.extra",
    "hypothesis.stateful",
    "mcp.server",
    "mcp.types",
    "models_app.vendors.deltas",
    "models_app.vendors.exceptions",
    "models_app.vendors.history",
    "models_app.vendors.http_client",
    "models_app.vendors.pydantic_models",
    "moto.server",
    "obstore.store",
    "openai",
    "opentelemetry.sdk.trace",
    "prometheus_client",
    "psutil",
    "pydantic_ai.direct",
    "pydantic_ai.models.anthropic",
    "pydantic_ai.models.google",
    "pydantic_ai.models.openrouter",
    "pydantic_ai.providers.anthropic",
    "pydantic_ai.providers.google",
    "pydantic_ai.providers.openrouter",
    "pytest",
    "pytest_asyncio.plugin",
    "pytest_django.plugin",
    "pytest_timeout",
    "redis.asyncio",
    "starlette.applications",
    "xdist.remote",
)
"""What tests import and servers do not."""


def main() -> None:
    """Import the libraries, then fork until the suite has ended."""
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    servers, vendors, suite = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    fork_server.import_modules()
    gc.freeze()
    listener = servers
    if os.fork() == 0:
        listener = vendors
        for name in TEST_MODULES:
            importlib.import_module(name)
        gc.freeze()
    (vendors if listener is servers else servers).close()
    connection = _connection(listener, suite)
    if connection is None:
        with suppress(ChildProcessError):
            while os.wait():
                pass
        return
    request = fork_server.serve(connection)
    if request is None:
        os._exit(0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.modules["__main__"] = types.ModuleType("__main__")
    gc.enable()
    fork_server.become(request)


def _connection(listener: socket.socket, suite: socket.socket) -> socket.socket | None:
    """Fork for each connection and return it there; return None here when the suite has ended."""
    while True:
        readable, _, _ = select.select([listener, suite], [], [])
        if suite in readable:
            return None
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            suite.close()
            return connection
        connection.close()


if __name__ == "__main__":
    main()
