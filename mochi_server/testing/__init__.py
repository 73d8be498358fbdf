"""Runs a server in test mode for the tests of programs that talk to it.

The server is a process of its own, so tests may use any event loop or none, and any client. Its
models are scripted, and the script can be changed while it runs::

    with serve() as server:
        server.script("Good morning!")
        answer = httpx.post(f"{server.api_url}/chat", json={"model": MODEL, "message": "Hi"})

:meth:`MochiServer.client` streams answers to asynchronous tests, and
:mod:`mochi_server.testing.plugin` has both as pytest fixtures.
"""

from mochi_server.testing.client import MochiClient, StreamedEvent, TurnStream
from mochi_server.testing.replies import Reply, ToolCall
from mochi_server.testing.server import MODEL, MochiServer, ServerNotStarted, serve

__all__ = [
    "MODEL",
    "MochiClient",
    "MochiServer",
    "Reply",
    "ServerNotStarted",
    "StreamedEvent",
    "ToolCall",
    "TurnStream",
    "serve",
]
