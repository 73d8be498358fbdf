"""Opens a transport per event loop, because connections belong to an event loop."""

import asyncio
from collections.abc import Callable

from models_app.ollama.transport import OllamaTransport


class LoopTransport:
    """Holds the transport of a client that may be used on one event loop after another.

    Args:
        open_transport: Opens one on the running event loop.
    """

    def __init__(self, open_transport: Callable[[], OllamaTransport]) -> None:
        self._open = open_transport
        self._opened: tuple[asyncio.AbstractEventLoop, OllamaTransport] | None = None

    def get(self) -> OllamaTransport:
        """Return the transport of the running event loop; that of an earlier loop is left."""
        loop = asyncio.get_running_loop()
        if self._opened is None or self._opened[0] is not loop:
            self._opened = (loop, self._open())
        return self._opened[1]

    async def aclose(self) -> None:
        """Close every connection; the next use opens new ones."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened[1].aclose()
