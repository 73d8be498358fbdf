"""Runs a scripted model server in a thread, on an event loop of its own."""

import asyncio
import threading
from concurrent.futures import Future

from scripted_app.server import ScriptedModelServer


class ScriptedModelThread:
    """Serves scripted models in a thread, independent of the program's event loops.

    Attributes:
        server: The server; start and stop it here.
    """

    def __init__(self, words_per_second: float = 0.0) -> None:
        self.server = ScriptedModelServer(words_per_second=words_per_second)
        self._started: Future[None] = Future()
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="scripted-model", daemon=True)

    def start(self) -> str:
        """Start listening; return the base URL.

        Raises:
            OSError: The address can't be listened on.
        """
        self._thread.start()
        self._started.result()
        return self.server.url

    def stop(self) -> None:
        """Stop at once and wait for the thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        try:
            await self.server.start()
        except OSError as error:
            self._started.set_exception(error)
            return
        self._loop = asyncio.get_running_loop()
        self._started.set_result(None)
        await self._stopping.wait()
        self._loop = None
        await self.server.stop()
