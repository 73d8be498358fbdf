"""Configures uvicorn and the limits of our protocol."""

from typing import Any

import uvicorn

from mochi_project.uvicorn_protocol.disconnects import Disconnects
from mochi_project.uvicorn_protocol.waiting_connections import WaitingConnections

HEAD_SECONDS = 30.0
WRITE_SECONDS = 30.0


class ServerConfig(uvicorn.Config):
    """Adds the bounds of ``BoundedHttpToolsProtocol`` to uvicorn's configuration.

    Args:
        app: The application or its import path.
        head_timeout: The time limit in seconds for the headers of a request.
        write_timeout: The time limit in seconds for a client that reads nothing of its response.
        most_waiting: The maximum connections waiting for a request or the rest of one; the default
            of ``WaitingConnections`` if None.
        **options: Options of uvicorn.

    Attributes:
        server_stops: Whether the server is stopping and closes its connections, new ones too.
    """

    def __init__(
        self,
        app: Any,
        *,
        head_timeout: float = HEAD_SECONDS,
        write_timeout: float = WRITE_SECONDS,
        most_waiting: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(app, **options)
        self.head_timeout = head_timeout
        self.write_timeout = write_timeout
        self.waiting_connections = WaitingConnections(most_waiting)
        self.disconnects = Disconnects()
        self.server_stops = False
