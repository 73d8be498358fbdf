"""Opens a transport where a client needs one: connections belong to the event loop they are on."""

import asyncio

from models_app.model_calls import CallHeaders
from models_app.ollama.host import OllamaHost
from models_app.ollama.transport import OllamaTransport


class LoopTransport:
    """Holds the transport of a client that may be used on one event loop after another.

    Args:
        host: The server's address.
        silence_timeout: Seconds without a byte after which an answer counts as lost.
        connect_timeout: Seconds that making a connection may take.
        authorization: An ``Authorization`` header, where the host has no credentials of its own.
        call_headers: Returns further headers of a chat request; None for none.
    """

    def __init__(
        self,
        host: OllamaHost,
        *,
        silence_timeout: float,
        connect_timeout: float,
        authorization: str | None,
        call_headers: CallHeaders | None = None,
    ) -> None:
        self._host = host
        self._silence_timeout = silence_timeout
        self._connect_timeout = connect_timeout
        self._authorization = authorization
        self._call_headers = call_headers
        self._opened: tuple[asyncio.AbstractEventLoop, OllamaTransport] | None = None

    def get(self) -> OllamaTransport:
        """Return the transport of the running event loop; that of an earlier loop is left."""
        loop = asyncio.get_running_loop()
        if self._opened is None or self._opened[0] is not loop:
            transport = OllamaTransport(
                self._host,
                silence_timeout=self._silence_timeout,
                connect_timeout=self._connect_timeout,
                authorization=self._authorization,
                call_headers=self._call_headers,
            )
            self._opened = (loop, transport)
        return self._opened[1]

    async def aclose(self) -> None:
        """Close every connection; the next use opens new ones."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened[1].aclose()
