"""Counts with Prometheus's client; imported only if metrics are enabled."""

import asyncio
import platform
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, cast

import django
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, values
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from chat.turn.observer import ToolEnd, ToolStart, TurnEnd, TurnStart
from mochi_project.principal import principal
from models_app.language_model import Finished
from models_app.model_calls import CANCELLED, OK, ModelCall, ModelCallStart
from usage_app.metrics import names
from usage_app.metrics.names import BoundedNames
from usage_app.metrics.shared_files import SharedFiles

TURN_BUCKETS = (0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 600)
SLOW_LOOP_SECONDS = 0.25
WRITE_SECONDS = 1.0
"""The time after which ended turns and calls are written, all at once."""
NOT_FOUND = "TOOL_NOT_FOUND"
FIRST_TOKEN_BUCKETS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)


_M = TypeVar("_M", Counter, Histogram)
_Labels = tuple[str, str, str]
"""The provider, the model and the purpose of a model call."""
_Sums = defaultdict[tuple[Counter, tuple[str, ...]], float]
"""The amounts to add to counters, by their labels."""


class Meters:
    """Counts the turns, model calls and tool calls of this process.

    A ``ModelCallObserver`` and a ``TurnObserver``. Nothing is counted per token, and turns
    are queued and counted once a second: Prometheus's client is much faster in a loop than when it
    is called now and then (docs/decisions/0048).

    Args:
        files: The files that all processes count in.
        version: The server's version.
        by_owner: Whether turns, tokens and costs are also counted by the owner of data.
    """

    def __init__(self, files: SharedFiles, *, version: str, by_owner: bool = False) -> None:
        self._files = files
        self._build = (version, platform.python_version(), django.get_version())
        self._children: dict[tuple[Any, tuple[str, ...]], Any] = {}
        self._writing: asyncio.TimerHandle | None = None
        self._running = self._listeners = 0
        self._shown = 0, 0
        self._ended_turns: list[tuple[str, str, float, str]] = []
        self._ended_calls: list[tuple[_Labels, str, float | None, Finished, str]] = []
        self._ended_tools: list[tuple[str, str]] = []
        self._models, self._tools = BoundedNames(), BoundedNames()
        self._owners = BoundedNames() if by_owner else None
        self._owner_turns = _counter(names.OWNER_TURNS)
        self._owner_tokens = _counter(names.OWNER_TOKENS)
        self._owner_cost = _counter(names.OWNER_COST)
        self._turns = _counter(names.TURNS)
        self._active = _gauge(names.ACTIVE_TURNS, "livesum")
        self._turn_seconds = _histogram(names.TURN_SECONDS, TURN_BUCKETS)
        self._calls = _counter(names.MODEL_CALLS)
        self._first_token = _histogram(names.FIRST_TOKEN_SECONDS, FIRST_TOKEN_BUCKETS)
        self._tokens = _counter(names.TOKENS)
        self._cost = _counter(names.COST)
        self._errors = _counter(names.UPSTREAM_ERRORS)
        self._tool_calls = _counter(names.TOOL_CALLS)
        self._streams = _gauge(names.STREAMS, "livesum")
        self._lag = _gauge(names.LOOP_LAG, "livemax")
        self._slow_loops = _counter(names.SLOW_LOOPS)

    def turn_started(self, _: TurnStart, /) -> None:
        """Count a running turn."""
        self._running += 1

    def turn_ended(self, turn: TurnEnd, /) -> None:
        """Queue a turn that has ended."""
        self._running -= 1
        state, dialect = turn.state.value, turn.start.dialect
        self._ended_turns.append((state, dialect, turn.seconds, principal().owner))
        self._write_soon()

    def tool_started(self, _: ToolStart, /) -> None:
        """Do nothing: calls are counted when they end."""

    def tool_ended(self, end: ToolEnd, /) -> None:
        """Queue a tool call."""
        self._ended_tools.append((end.start.name, end.outcome))
        self._write_soon()

    async def model_calling(self, _: ModelCallStart, /) -> None:
        """Do nothing: calls are counted when they end."""

    def model_called(self, call: ModelCall, /) -> None:
        """Queue a model call with its tokens and cost, without its request, which may be large."""
        start = call.start
        labels = start.provider, start.model, start.purpose
        first_token = call.seconds_to_first_token
        self._ended_calls.append((labels, call.outcome, first_token, call.tokens, start.owner))
        self._write_soon()

    def sample(self, *, loop_lag: float, streams: int) -> None:
        """Record values that are sampled four times a second.

        Args:
            loop_lag: The delay of the event loop in seconds.
            streams: The listeners to turns of this process.
        """
        self._lag.set(loop_lag)
        if loop_lag >= SLOW_LOOP_SECONDS:
            self._slow_loops.inc()
        self._listeners = streams
        self._show()

    def write(self) -> None:
        """Count what was queued, so that other processes see it."""
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
        # Who sees that a turn has ended sees its calls too, and no longer sees it run.
        self._write_calls()
        self._write_tools()
        self._show()
        self._write_turns()

    def render(self, accept: str, *, queue_age: float | None) -> tuple[bytes, str]:
        """Return the metrics of all processes as text, and its content type. Blocks.

        Args:
            accept: The client's ``Accept`` header; OpenMetrics is returned if it asks for it.
            queue_age: How many seconds the oldest due summary has waited; None if unknown.
        """
        encode, content_type = choose_encoder(accept)
        return encode(self._registry(queue_age)), content_type

    def values(self, *, queue_age: float | None) -> Mapping[str, Any]:
        """Return the metrics of all processes by name; histograms without buckets. Blocks.

        Args:
            queue_age: How many seconds the oldest due summary has waited; None if unknown.
        """
        shown: dict[str, list[dict[str, Any]]] = {}
        for family in self._registry(queue_age).collect():
            for sample in family.samples:
                if "le" not in sample.labels:
                    shown.setdefault(sample.name, []).append(
                        {"labels": dict(sample.labels), "value": sample.value}
                    )
        return shown

    def _write_soon(self) -> None:
        if self._writing is None:
            self._writing = asyncio.get_running_loop().call_later(WRITE_SECONDS, self.write)

    def _show(self) -> None:
        """Write the numbers of turns and listeners that have changed."""
        now = self._running, self._listeners
        if now != self._shown:
            self._shown = now
            self._active.set(self._running)
            self._streams.set(self._listeners)

    def _write_calls(self) -> None:
        ended, self._ended_calls = self._ended_calls, []
        sums = _Sums(float)
        for (provider, name, purpose), outcome, first_token, tokens, owner in ended:
            model = self._models(name)
            sums[self._calls, (provider, model, purpose)] += 1
            if first_token is not None:
                self._child(self._first_token, provider, model).observe(first_token)
            for kind, count in (
                ("input", tokens.prompt_eval_count),
                ("output", tokens.eval_count),
                ("cached", tokens.cached_count),
                ("reasoning", tokens.reasoning_count),
            ):
                if count:
                    sums[self._tokens, (provider, model, kind)] += count
            if tokens.cost:
                sums[self._cost, (provider, model)] += float(tokens.cost)
            if outcome not in (OK, CANCELLED):
                sums[self._errors, (outcome,)] += 1
            if self._owners is not None:
                shown = self._owners(owner)
                sums[self._owner_tokens, (shown, "input")] += tokens.prompt_eval_count or 0
                sums[self._owner_tokens, (shown, "output")] += tokens.eval_count or 0
                sums[self._owner_cost, (shown,)] += float(tokens.cost or 0)
        self._raise(sums)

    def _write_tools(self) -> None:
        ended, self._ended_tools = self._ended_tools, []
        sums = _Sums(float)
        for tool, outcome in ended:
            # Models make names up, which are no tools.
            name = names.UNKNOWN if outcome == NOT_FOUND else self._tools(tool)
            sums[self._tool_calls, (name, outcome)] += 1
        self._raise(sums)

    def _write_turns(self) -> None:
        ended, self._ended_turns = self._ended_turns, []
        sums = _Sums(float)
        for state, dialect, seconds, owner in ended:
            self._turn_seconds.observe(seconds)
            sums[self._turns, (state, dialect)] += 1
            if self._owners is not None:
                sums[self._owner_turns, (self._owners(owner), state)] += 1
        self._raise(sums)

    def _raise(self, sums: _Sums) -> None:
        for (counter, labels), amount in sums.items():
            self._child(counter, *labels).inc(amount)

    def _child(self, metric: _M, *labels: str) -> _M:
        """Return the child with these labels, from a cache: the metric takes five times as long."""
        child = self._children.get((metric, labels))
        if child is None:
            child = self._children[metric, labels] = metric.labels(*labels)
        return cast("_M", child)

    def close(self) -> None:
        """Write what is queued, and release the files: they are reset once no process uses them."""
        self.write()
        self._files.close()

    def _registry(self, queue_age: float | None) -> CollectorRegistry:
        self._files.forget_dead()
        registry = CollectorRegistry()
        registry.register(_Merged(self._files))
        registry.register(_AtScrape(self._build, queue_age))
        return registry


class _Merged(Collector):
    """Yields the merged counts of all processes."""

    def __init__(self, files: SharedFiles) -> None:
        self._files = files

    def collect(self) -> Iterator[Metric]:
        """Yield the sums, without files that are still empty."""
        paths = [str(path) for path in self._files.filled()]
        yield from MultiProcessCollector.merge(paths, accumulate=True)  # type: ignore[no-untyped-call]


class _AtScrape(Collector):
    """Yields values that are determined at each scrape."""

    def __init__(self, build: tuple[str, str, str], queue_age: float | None) -> None:
        self._build = build
        self._queue_age = queue_age

    def collect(self) -> Iterator[Metric]:
        """Yield the values."""
        build = GaugeMetricFamily(names.BUILD.name, names.BUILD.help, labels=names.BUILD.labels)
        build.add_metric(self._build, 1)
        yield build
        if self._queue_age is not None:
            yield GaugeMetricFamily(
                names.QUEUE_AGE.name, names.QUEUE_AGE.help, value=self._queue_age
            )


def counts_in_files() -> bool:
    """Return whether Prometheus's client counts in files, which it decides when it is imported."""
    return values.ValueClass is not values.MutexValue


def _counter(metric: names.Metric) -> Counter:
    return Counter(metric.name, metric.help, metric.labels, registry=None)


def _gauge(metric: names.Metric, mode: Any) -> Gauge:
    return Gauge(metric.name, metric.help, metric.labels, registry=None, multiprocess_mode=mode)


def _histogram(metric: names.Metric, buckets: tuple[float, ...]) -> Histogram:
    return Histogram(metric.name, metric.help, metric.labels, registry=None, buckets=buckets)
