"""Counts with Prometheus's client; imported only if metrics are enabled."""

import platform
from collections.abc import Iterator, Mapping
from typing import Any

import django
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, values
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from chat.turn.observer import ToolEnd, TurnEnd, TurnObserver, TurnStart
from mochi_project.principal import principal
from models_app.model_calls import CANCELLED, OK, ModelCall, ModelCallStart
from usage_app.metrics import names
from usage_app.metrics.names import BoundedNames
from usage_app.metrics.shared_files import SharedFiles

TURN_BUCKETS = (0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 600)
SLOW_LOOP_SECONDS = 0.25
NOT_FOUND = "TOOL_NOT_FOUND"
FIRST_TOKEN_BUCKETS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)


class Meters(TurnObserver):
    """Counts the turns, model calls and tool calls of this process.

    Also a ``ModelCallObserver``. Nothing is counted per token (docs/decisions/0048).

    Args:
        files: The files that all processes count in.
        version: The server's version.
        by_owner: Whether turns, tokens and costs are also counted by the owner of data.
    """

    def __init__(self, files: SharedFiles, *, version: str, by_owner: bool = False) -> None:
        self._files = files
        self._build = (version, platform.python_version(), django.get_version())
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
        self._active.inc()

    def turn_ended(self, turn: TurnEnd, /) -> None:
        """Count a turn that has ended."""
        state = turn.state.value
        self._active.dec()
        self._turn_seconds.observe(turn.seconds)
        self._turns.labels(state, turn.start.dialect).inc()
        if self._owners is not None:
            self._owner_turns.labels(self._owners(principal().owner), state).inc()

    def tool_ended(self, end: ToolEnd, /) -> None:
        """Count a tool call."""
        # Models make names up, which are no tools.
        name = names.UNKNOWN if end.outcome == NOT_FOUND else self._tools(end.start.name)
        self._tool_calls.labels(name, end.outcome).inc()

    async def model_calling(self, _: ModelCallStart, /) -> None:
        """Do nothing: calls are counted when they end."""

    def model_called(self, call: ModelCall, /) -> None:
        """Count a model call with its tokens and cost."""
        start, tokens = call.start, call.tokens
        provider, model = start.provider, self._models(start.model)
        self._calls.labels(provider, model, start.purpose).inc()
        if call.seconds_to_first_token is not None:
            self._first_token.labels(provider, model).observe(call.seconds_to_first_token)
        for kind, count in (
            ("input", tokens.prompt_eval_count),
            ("output", tokens.eval_count),
            ("cached", tokens.cached_count),
            ("reasoning", tokens.reasoning_count),
        ):
            if count:
                self._tokens.labels(provider, model, kind).inc(count)
        if tokens.cost:
            self._cost.labels(provider, model).inc(float(tokens.cost))
        if call.outcome not in (OK, CANCELLED):
            self._errors.labels(call.outcome).inc()
        if self._owners is not None:
            owner = self._owners(start.owner)
            self._owner_tokens.labels(owner, "input").inc(tokens.prompt_eval_count or 0)
            self._owner_tokens.labels(owner, "output").inc(tokens.eval_count or 0)
            self._owner_cost.labels(owner).inc(float(tokens.cost or 0))

    def sample(self, *, loop_lag: float, streams: int) -> None:
        """Record values that are sampled four times a second.

        Args:
            loop_lag: The delay of the event loop in seconds.
            streams: The listeners to turns of this process.
        """
        self._lag.set(loop_lag)
        if loop_lag >= SLOW_LOOP_SECONDS:
            self._slow_loops.inc()
        self._streams.set(streams)

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

    def close(self) -> None:
        """Release the files: they are reset once no process uses them."""
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
