"""Defines all metrics in one table. Pure."""

from typing import Literal

import msgspec

Kind = Literal["counter", "gauge", "histogram"]

OTHER = "other"
"""Replaces the names beyond the maximum."""

UNKNOWN = "unknown"
"""Replaces the names of tools that do not exist."""


class Metric(msgspec.Struct, frozen=True):
    """A metric.

    Attributes:
        name: Its name, with its unit.
        kind: Its Prometheus type.
        labels: Its labels; never a session.
        help: Its help text.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str


TURNS = Metric(
    "mochi_turns_total",
    "counter",
    ("status", "dialect"),
    "Turns that ended, by their final state and the protocol of their request.",
)
ACTIVE_TURNS = Metric("mochi_active_turns", "gauge", (), "Turns that run, agents' included.")
TURN_SECONDS = Metric(
    "mochi_turn_seconds", "histogram", (), "How long turns ran, waits for approvals included."
)
FIRST_TOKEN_SECONDS = Metric(
    "mochi_model_first_token_seconds",
    "histogram",
    ("provider", "model"),
    "From a model call to its first text, reasoning or tool call.",
)
MODEL_CALLS = Metric(
    "mochi_model_calls_total", "counter", ("provider", "model", "purpose"), "Calls of models."
)
TOKENS = Metric(
    "mochi_tokens_total",
    "counter",
    ("provider", "model", "type"),
    "Tokens as providers count them: input, output, cached (part of input), reasoning (of output).",
)
COST = Metric(
    "mochi_cost_usd_total",
    "counter",
    ("provider", "model"),
    "Costs in US dollars, of the calls whose price is known.",
)
TOOL_CALLS = Metric(
    "mochi_tool_calls_total",
    "counter",
    ("tool", "status"),
    "Tool calls that ended: ok, failed, interrupted, or the code of their error.",
)
UPSTREAM_ERRORS = Metric(
    "mochi_upstream_errors_total", "counter", ("code",), "Model calls that failed, by error code."
)
STREAMS = Metric("mochi_streams_attached", "gauge", (), "Listeners of turns that run.")
LOOP_LAG = Metric(
    "mochi_loop_lag_seconds",
    "gauge",
    (),
    "How late the event loop came to its work just now, in the process where it was the latest.",
)
SLOW_LOOPS = Metric(
    "mochi_slow_loops_total",
    "counter",
    (),
    "How often an event loop was held up for a quarter of a second or longer.",
)
QUEUE_AGE = Metric(
    "mochi_queue_age_seconds", "gauge", (), "For how long the oldest due summary has waited."
)
BUILD = Metric(
    "mochi_build_info", "gauge", ("version", "python", "django"), "What runs; the value is 1."
)

OWNER_TURNS = Metric(
    "mochi_owner_turns_total", "counter", ("owner", "status"), "Turns of an owner that ended."
)
OWNER_TOKENS = Metric(
    "mochi_owner_tokens_total", "counter", ("owner", "type"), "Tokens of an owner: input, output."
)
OWNER_COST = Metric(
    "mochi_owner_cost_usd_total", "counter", ("owner",), "Known costs of an owner in US dollars."
)
METRICS_BY_OWNER = (OWNER_TURNS, OWNER_TOKENS, OWNER_COST)

METRICS = (
    *(TURNS, ACTIVE_TURNS, TURN_SECONDS, STREAMS),
    *(MODEL_CALLS, FIRST_TOKEN_SECONDS, TOKENS, COST, UPSTREAM_ERRORS),
    TOOL_CALLS,
    *(LOOP_LAG, SLOW_LOOPS, QUEUE_AGE, BUILD),
)


class BoundedNames:
    """Limits the number of different names, each of which is a time series; more are ``other``.

    Args:
        most: The maximum number of names.
    """

    def __init__(self, most: int = 200) -> None:
        self._most = most
        self._known: set[str] = set()

    def __call__(self, name: str) -> str:
        """Return the name, or ``other``."""
        if name not in self._known:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(name)
        return name
