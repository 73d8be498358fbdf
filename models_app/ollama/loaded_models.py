"""Looks up with which context windows Ollama has loaded its models, so that none is reloaded.

Ollama loads a model anew for a request whose ``num_ctx`` differs from that of the loaded one, be it
smaller (https://github.com/ollama/ollama/issues/8029).
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated

import msgspec

from models_app.errors import ModelError
from models_app.ollama.inventory import with_tag
from models_app.window_sizes import LoadedWindow
from sessions_app.decoding import decoder_of

LOOK_UP_SECONDS = 0.3
ASK_AGAIN_SECONDS = 10.0
"""Seconds for which a server that failed to answer is not asked again: turns would wait for it."""

logger = logging.getLogger(__name__)


class _RunningModel(msgspec.Struct):
    name: str
    context_length: Annotated[int, msgspec.Meta(lt=2**31)] | None = None


class _Running(msgspec.Struct):
    models: Sequence[_RunningModel] = ()


_decoder = decoder_of(_Running)


class LoadedModels:
    """The models that one server has loaded, and what was sent to it last.

    Args:
        fetch: Returns the body of ``GET /api/ps``; raises ``ModelError``s.
        clock: Seconds that never go back.
    """

    def __init__(
        self, fetch: Callable[[], Awaitable[bytes]], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._asking: asyncio.Task[Mapping[str, int] | None] | None = None
        self._not_before = 0.0
        self._sent: dict[str, int | None] = {}
        self._defaults: dict[str, int] = {}
        self._exact: set[str] = set()

    def note(self, name: str, window: int | None) -> None:
        """Remember the window of a request that the server accepted; None if it had none."""
        self._sent[with_tag(name)] = window

    async def all(self) -> Mapping[str, int] | None:
        """Return the windows of the loaded models; None if the server did not say in time.

        Concurrent calls share one request.
        """
        if self._asking is None:
            if self._clock() < self._not_before:
                return None
            self._asking = asyncio.create_task(self._look_up(), name="ollama loaded models")
            self._asking.add_done_callback(self._looked_up)
        return await asyncio.shield(self._asking)

    async def window_of(self, name: str) -> LoadedWindow | None:
        """Return the window of one model; None if the server did not say in time."""
        windows = await self.all()
        if windows is None:
            return None
        name = with_tag(name)
        window = windows.get(name)
        if window is not None and name in self._sent:
            window = self._per_request(name, window, self._sent[name])
        return LoadedWindow(window=window, default=self._defaults.get(name))

    async def aclose(self) -> None:
        """Cancel the request in progress."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait({self._asking})

    def _per_request(self, name: str, window: int, sent: int | None) -> int:
        """Return the part of a reported window that one request has.

        Older servers report what all parallel requests have together. Sent back, it would be
        multiplied again, turn by turn.
        """
        if sent is None:
            self._defaults[name] = window
        elif window == sent:
            self._exact.add(name)
        elif name not in self._exact and window % sent == 0:
            return sent
        return window

    async def _look_up(self) -> Mapping[str, int] | None:
        try:
            async with asyncio.timeout(LOOK_UP_SECONDS):
                running = _decoder.decode(await self._fetch())
        except (
            ModelError, TimeoutError, msgspec.DecodeError, UnicodeError, RecursionError
        ) as error:  # fmt: skip
            logger.debug("loaded models are unknown: %s", error)
            self._not_before = self._clock() + ASK_AGAIN_SECONDS
            return None
        return {
            with_tag(each.name): each.context_length
            for each in running.models
            if each.context_length and each.context_length > 0
        }

    def _looked_up(self, task: asyncio.Task[Mapping[str, int] | None]) -> None:
        self._asking = None
        if not task.cancelled():
            task.exception()  # retrieved, as all callers may have been cancelled
