"""Observes model calls: one record for each request, with its purpose, tokens, times and outcome.

``ModelCatalogue`` hands out observed models only, and import contracts keep everybody else from
the providers behind them, so no call goes unseen (docs/decisions/0048).
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Protocol, Self

import msgspec

from models_app.language_model import (
    Delta,
    Finished,
    LanguageModel,
    ModelInfo,
    ModelRequest,
    Purpose,
    Retrying,
    WindowGrown,
)
from sessions_app.errors import MochiError

logger = logging.getLogger(__name__)

OK = "ok"
CANCELLED = "cancelled"
CRASHED = "INTERNAL_ERROR"


class ModelCall(msgspec.Struct, frozen=True, kw_only=True):
    """A model call that has ended.

    Attributes:
        provider: The provider: ``ollama``, or a vendor's name.
        model: The model's name, without a provider in front.
        purpose: What it was asked for.
        outcome: ``ok``, ``cancelled`` (the caller stopped it), or the code of the error.
        started_at: When it was asked, in seconds since 1970.
        seconds_to_first_token: From then to the first text, reasoning or tool call; None if there
            was none.
        seconds: From then to the end.
        tokens: Why the model stopped, and the tokens as the provider counted them.
    """

    provider: str
    model: str
    purpose: Purpose
    outcome: str
    started_at: float
    seconds_to_first_token: float | None
    seconds: float
    tokens: Finished


class ModelCallObserver(Protocol):
    """Sees every model call of this process. Called on the event loop, so it must not block."""

    def model_called(self, call: ModelCall, /) -> None:
        """Take note of a call that has ended; must not raise."""
        ...


class ModelCallLog:
    """Logs model calls, a line each."""

    def model_called(self, call: ModelCall, /) -> None:
        """Log the call."""
        tokens = call.tokens
        extra = {
            "provider": call.provider,
            "model": call.model,
            "purpose": call.purpose,
            "outcome": call.outcome,
            "seconds": round(call.seconds, 3),
            "seconds_to_first_token": call.seconds_to_first_token
            and round(call.seconds_to_first_token, 3),
            "prompt_tokens": tokens.prompt_eval_count,
            "cached_tokens": tokens.cached_count,
            "completion_tokens": tokens.eval_count,
            "reasoning_tokens": tokens.reasoning_count,
        }
        known = {key: value for key, value in extra.items() if value is not None}
        logger.info("model called", extra=known)


class CallInProgress:
    """Measures one call, as a context manager, and passes the record to the observer.

    Attributes:
        finished: The last delta, once it is there.
    """

    __slots__ = ("_begun", "_first", "_model", "_observer", "_provider", "_purpose", "finished")

    def __init__(
        self, observer: ModelCallObserver, *, provider: str, model: str, purpose: Purpose
    ) -> None:
        self.finished: Finished | None = None
        self._observer = observer
        self._provider = provider
        self._model = model
        self._purpose: Purpose = purpose
        self._first: float | None = None
        self._begun = time.perf_counter()

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def begins(self, batch: Sequence[Delta]) -> bool:
        """Return whether a batch has the first output, and note the time if it has."""
        if all(isinstance(delta, Retrying | WindowGrown) for delta in batch):
            return False
        self._first = time.perf_counter()
        return True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Hand the record to the observer."""
        seconds = time.perf_counter() - self._begun
        self._observer.model_called(
            ModelCall(
                provider=self._provider,
                model=self._model,
                purpose=self._purpose,
                outcome=self._outcome(error),
                started_at=time.time() - seconds,
                seconds_to_first_token=None if self._first is None else self._first - self._begun,
                seconds=seconds,
                tokens=self.finished or Finished(),
            )
        )

    def _outcome(self, error: BaseException | None) -> str:
        if isinstance(error, MochiError):
            return error.code
        if self.finished is not None or error is None:
            return OK
        if isinstance(error, asyncio.CancelledError | GeneratorExit):
            return CANCELLED
        return CRASHED


class ObservedModel:
    """A language model whose calls are observed; implements ``LanguageModel``.

    Args:
        model: The model; all its calls go through here.
        provider: The provider: ``ollama``, or a vendor's name.
        observer: Sees its calls.
    """

    def __init__(self, model: LanguageModel, *, provider: str, observer: ModelCallObserver) -> None:
        self.provider = provider
        self._model = model
        self._observer = observer

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta], None]:
        """Send a request and yield its deltas unchanged.

        Raises:
            ModelError: A subclass, before the first batch or between batches.
        """
        has_begun = False
        batch: Sequence[Delta] = ()
        with CallInProgress(
            self._observer, provider=self.provider, model=request.model, purpose=request.purpose
        ) as call:
            try:
                async with aclosing(self._model.stream(request)) as batches:
                    async for batch in batches:
                        if not has_begun:
                            has_begun = call.begins(batch)
                        yield batch
            finally:
                if batch and isinstance(batch[-1], Finished):
                    call.finished = batch[-1]

    def recall(self, model: str) -> ModelInfo | None:
        """Return the cached result of ``describe``, or None. Thread-safe."""
        return self._model.recall(model)

    async def describe(self, model: str) -> ModelInfo:
        """Return a model's facts, from a cache while they are fresh.

        Raises:
            ModelNotFound: The provider does not have it.
            ModelError: The provider can't be asked.
        """
        return await self._model.describe(model)
