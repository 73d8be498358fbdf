"""Configures uvicorn and the bounds of our protocol."""

from typing import Any

import uvicorn

from mochi_project.uvicorn_protocol.departures import Departures
from mochi_project.uvicorn_protocol.waiting_connections import WaitingConnections

HEAD_SECONDS = 30.0
WRITE_SECONDS = 30.0


class ServerConfig(uvicorn.Config):
    """Adds the bounds of ``BoundedHttpToolsProtocol`` to uvicorn's configuration.

    Args:
        app: The application or where to import it from.
        head_timeout: Seconds that the headers of a request may take.
        write_timeout: Seconds for which a client may take nothing of its response.
        most_waiting: Connections that may wait for a request, or the rest of one; by default what
            ``WaitingConnections`` takes.
        **options: uvicorn's own.

    Attributes:
        server_stops: Whether the server closes its connections, and those that come now.
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
        self.departures = Departures()
        self.server_stops = False
