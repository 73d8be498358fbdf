"""Observes model calls: one record for each request, with its purpose, tokens, times and outcome.

``ModelCatalogue`` returns observed models only, and import contracts prevent direct use of the
providers, so every call is observed (docs/decisions/0048).
"""

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from types import TracebackType
from typing import Protocol, Self

import msgspec

from mochi_project.principal import principal
from models_app.language_model import (
    CallArgumentsDelta,
    Delta,
    Finished,
    LanguageModel,
    ModelInfo,
    ModelRequest,
    Purpose,
    Retrying,
    SchemaLeftOut,
    TextDelta,
    ThinkingDelta,
    Warned,
    WindowGrown,
)
from models_app.prices import NO_PRICES, Prices
from sessions_app.errors import MochiError

logger = logging.getLogger(__name__)

OK = "ok"
CANCELLED = "cancelled"
CRASHED = "INTERNAL_ERROR"


CallHeaders = Callable[[], Mapping[str, str]]
"""Returns what the requests of the model call that is made just now have as further headers."""


class ModelCallHeaders(msgspec.Struct, frozen=True):
    """Holds what makes the headers of model calls; None for none."""

    make: CallHeaders | None = None


class Caller(msgspec.Struct, frozen=True):
    """The session and the turn that model calls are made for.

    Attributes:
        session_id: The session; for an agent's calls the one whose turn asked the agent.
        turn_id: The turn; None for a summary.
    """

    session_id: str
    turn_id: str | None = None


_caller: ContextVar[Caller | None] = ContextVar("caller", default=None)


def call_models_for(session_id: str, turn_id: str | None = None) -> None:
    """Set for whom this task, and those that it starts, call models.

    A task that was started for a caller stays his: agents work for the turn that asked them.
    """
    if _caller.get() is None:
        _caller.set(Caller(session_id, turn_id))


def current_caller() -> Caller | None:
    """Return for whom this task calls models; None if unknown."""
    return _caller.get()


class ModelCallStart(msgspec.Struct, frozen=True, kw_only=True, eq=False, weakref=True):
    """A model call that is about to be made. The one object stands for the call until its end.

    Attributes:
        provider: The provider: ``ollama``, or a vendor's name.
        model: The model's name, without its provider.
        purpose: The purpose of the call.
        owner: The owner of data that it is made for.
        call_id: An id that no other call of any process has.
        caller: The caller; None if unknown.
        request: The request; None if a provider's library makes it.
        url: The provider's address, which may hold credentials; None if it is not known.
        characters: The characters of the messages, if there is no request.
    """

    provider: str
    model: str
    purpose: Purpose
    owner: str
    call_id: str = ""
    caller: Caller | None = None
    request: ModelRequest | None = None
    url: str | None = None
    characters: int = 0


class ModelCall(msgspec.Struct, frozen=True, kw_only=True):
    """A model call that has ended.

    Attributes:
        start: The start of the call.
        outcome: ``ok``, ``cancelled`` (the caller stopped it), or the code of the error.
        started_at: When it was asked, in seconds since 1970.
        seconds_to_first_token: From then to the first text, reasoning or tool call; None if there
            was none.
        seconds: From then to the end.
        tokens: Why the model stopped, and the tokens as the provider counted them.
        streamed: The characters of text, reasoning and arguments that came.
    """

    start: ModelCallStart
    outcome: str
    started_at: float
    seconds_to_first_token: float | None
    seconds: float
    tokens: Finished
    streamed: int = 0


class ModelCallObserver(Protocol):
    """Sees every model call of this process. Called on the event loop, so it must not block."""

    async def model_calling(self, start: ModelCallStart, /) -> str | None:
        """Take note of a call that is about to be made.

        Runs in the task that makes the call, so context variables that are set here hold for it.

        Returns:
            A warning for the caller; None without one.

        Raises:
            MochiError: The call is refused. It is not made, and its end is not reported.
        """
        ...

    def model_called(self, call: ModelCall, /) -> None:
        """Take note of a call that has ended; must not raise."""
        ...


class ModelCallObservers:
    """Passes model calls to several observers, in order.

    Args:
        observers: The observers, beginning with those that may refuse a call.
    """

    def __init__(self, observers: Sequence[ModelCallObserver]) -> None:
        self._observers = tuple(observers)

    async def model_calling(self, start: ModelCallStart, /) -> str | None:
        """Call the observers in order; return their warnings.

        Raises:
            MochiError: An observer refused the call; later ones are not called.
        """
        told = [await each.model_calling(start) for each in self._observers]
        return " ".join(filter(None, told)) or None

    def model_called(self, call: ModelCall, /) -> None:
        """Tell the observers of the end."""
        for each in self._observers:
            each.model_called(call)


class ModelCallLog:
    """Logs model calls, a line each."""

    async def model_calling(self, start: ModelCallStart, /) -> None:
        """Do nothing: the end of the call has everything."""

    def model_called(self, call: ModelCall, /) -> None:
        """Log the call."""
        start, tokens = call.start, call.tokens
        extra = {
            "provider": start.provider,
            "model": start.model,
            "purpose": start.purpose,
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
    """Measures one call, as an async context manager, and tells the observer of start and end.

    Entering it raises the observer's error if the call is refused.

    Attributes:
        finished: The last delta, once it is there.
        streamed: The characters that came so far.
        warning: An observer's warning for the caller.
    """

    __slots__ = ("_begun", "_first", "_observer", "_start", "finished", "streamed", "warning")

    def __init__(
        self,
        observer: ModelCallObserver,
        *,
        provider: str,
        model: str,
        purpose: Purpose,
        request: ModelRequest | None = None,
        url: str | None = None,
        characters: int = 0,
    ) -> None:
        self.finished: Finished | None = None
        self.streamed = 0
        self.warning: str | None = None
        self._observer = observer
        self._start = ModelCallStart(
            provider=provider,
            model=model,
            purpose=purpose,
            owner=principal().owner,
            call_id=os.urandom(8).hex(),
            caller=_caller.get(),
            request=request,
            url=url,
            characters=characters,
        )
        self._first: float | None = None
        self._begun = 0.0

    async def __aenter__(self) -> Self:
        """Begin, unless the observer refuses."""
        self.warning = await self._observer.model_calling(self._start)
        self._begun = time.perf_counter()
        return self

    def begins(self, batch: Sequence[Delta]) -> bool:
        """Return whether a batch has the first output, and note the time if it has."""
        for delta in batch:
            if not isinstance(delta, Retrying | WindowGrown | SchemaLeftOut):
                self._first = time.perf_counter()
                return True
        return False

    def count(self, batch: Sequence[Delta]) -> None:
        """Count the characters of a batch, for the case that the provider will not say."""
        for delta in batch:
            kind = type(delta)
            if kind is TextDelta or kind is ThinkingDelta:
                self.streamed += len(delta.text)  # type: ignore[union-attr] # by its kind
            elif kind is CallArgumentsDelta:
                self.streamed += len(delta.arguments)  # type: ignore[union-attr]

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Hand the record to the observer."""
        seconds = time.perf_counter() - self._begun
        self._observer.model_called(
            ModelCall(
                start=self._start,
                outcome=self._outcome(error),
                started_at=time.time() - seconds,
                seconds_to_first_token=None if self._first is None else self._first - self._begun,
                seconds=seconds,
                tokens=self.finished or Finished(),
                streamed=self.streamed,
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


def _with_counted_sink(request: ModelRequest, call: CallInProgress) -> ModelRequest:
    sink = request.sink
    if sink is None:
        return request

    def counted(batch: Sequence[Delta]) -> bool:
        taken = sink(batch)
        if taken:
            call.count(batch)
        return taken

    return msgspec.structs.replace(request, sink=counted)


class ObservedModel:
    """A language model whose calls are observed; implements ``LanguageModel``.

    Args:
        model: The model; all its calls go through here.
        provider: The provider: ``ollama``, or a vendor's name.
        observer: Sees its calls.
        url: The provider's address, for the observer.
        prices: The prices of its calls.
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        provider: str,
        observer: ModelCallObserver,
        url: str | None = None,
        prices: Prices = NO_PRICES,
    ) -> None:
        self.provider = provider
        self._prices = prices
        self._url = url
        self._model = model
        self._observer = observer

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta], None]:
        """Send a request and yield its deltas unchanged, but for the cost in the last one.

        Warnings of observers are yielded first.

        Raises:
            ModelError: A subclass, before the first batch or between batches.
        """
        has_begun = False
        batch: Sequence[Delta] = ()
        async with CallInProgress(
            self._observer,
            provider=self.provider,
            model=request.model,
            purpose=request.purpose,
            request=request,
            url=self._url,
        ) as call:
            if call.warning is not None:
                yield [Warned(call.warning)]
            try:
                counted = _with_counted_sink(request, call)
                async with aclosing(self._model.stream(counted)) as batches:
                    async for batch in batches:
                        call.count(batch)
                        if not has_begun:
                            has_begun = call.begins(batch)
                        if batch and type(batch[-1]) is Finished:
                            batch = self._priced(batch, request.model)  # noqa: PLW2901
                        yield batch
            finally:
                if batch and isinstance(batch[-1], Finished):
                    call.finished = batch[-1]

    def _priced(self, batch: Sequence[Delta], model: str) -> Sequence[Delta]:
        *before, last = batch
        assert isinstance(last, Finished)  # noqa: S101 - by who calls
        cost = self._prices.cost_of(self.provider, model, last)
        return batch if cost is None else [*before, msgspec.structs.replace(last, cost=cost)]

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
