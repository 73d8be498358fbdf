"""Creates a span for each turn, with child spans for its model calls and tool calls.

Turns and tool calls run in tasks of their own. Each makes its span the current one of its task, so
that it becomes the parent of spans started there; an agent's turn is a child of its tool call. A
model call has no task: its generator runs in the task that reads it and may be closed in another
one. So a context is never restored, and open spans are found by the objects of their operations.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import lru_cache
from urllib.parse import urlsplit

from opentelemetry.context import attach, get_current
from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    get_current_span,
    set_span_in_context,
)

from chat.turn.observer import ToolEnd, ToolStart, TurnEnd, TurnObserver, TurnStart
from models_app.model_calls import CANCELLED, OK, ModelCall, ModelCallStart
from sessions_app.surrogates import join_surrogates
from tools_app.mcp.naming import server_of
from usage_app.traces import contents, names
from usage_app.traces.names import Attribute, Naming, Value
from usage_app.traces.options import SpanOptions
from usage_app.traces.propagation import headers_of

INTERRUPTED = "interrupted"
LONGEST_NAME = 256
"""Models make up the names of tools."""

_NO_HEADERS: Mapping[str, str] = {}
_DEFAULT_PORTS = {"http": 80, "https": 443}

_calling: ContextVar[ModelCallStart | None] = ContextVar("traced_call", default=None)
"""The model call that the current task made last; its headers are those of the open span."""


class SpanObserver(TurnObserver):
    """Observes turns and model calls as spans; also a ``ModelCallObserver``.

    Args:
        tracer: Returns the tracer.
        options: The options of spans.
    """

    def __init__(self, tracer: Callable[[], Tracer], options: SpanOptions) -> None:
        self._tracer = tracer
        self._contents = options.contents
        self._naming = Naming(latest=options.latest_names)
        self._turns: dict[str, Span] = {}
        self._tools: dict[ToolStart, Span] = {}
        self._calls: dict[ModelCallStart, Span] = {}

    @property
    def open_spans(self) -> int:
        """The number of open spans."""
        return len(self._turns) + len(self._tools) + len(self._calls)

    def call_headers(self) -> Mapping[str, str]:
        """Return the trace headers for requests of this task's current model call."""
        start = _calling.get()
        span = None if start is None else self._calls.get(start)
        return _NO_HEADERS if span is None else headers_of(span)

    def tool_headers(self) -> Mapping[str, str]:
        """Return the trace headers for requests of this task's tool call."""
        return headers_of(get_current_span())

    def turn_started(self, turn: TurnStart, /) -> None:
        """Start the span of a turn, and make it the current one of its task."""
        said = contents.conversation(turn.said) if self._contents else None
        self._turns[turn.turn_id] = span = self._begin(
            f"{names.CHAT} {turn.model}"
            if turn.agent is None
            else f"{names.INVOKE_AGENT} {turn.agent}",
            SpanKind.INTERNAL,
            {
                names.OPERATION: names.INVOKE_AGENT,
                names.AGENT: turn.agent,
                names.CONVERSATION: turn.session_id,
                names.REQUEST_MODEL: turn.model,
                names.TURN_ID: turn.turn_id,
                names.PURPOSE: turn.purpose,
                names.INPUT_MESSAGES: said,
            },
        )
        _make_current(span)

    def turn_ended(self, turn: TurnEnd, /) -> None:
        """End the span."""
        answer = contents.answer(turn.answer) if self._contents and turn.answer else None
        self._end(
            self._turns.pop(turn.start.turn_id, None),
            {
                names.TURN_STATE: turn.state.value,
                names.ROUNDS: turn.rounds,
                names.TOOL_CALLS: turn.tool_calls,
                names.OUTPUT_MESSAGES: answer,
            },
            error=turn.error_code,
        )

    def tool_started(self, start: ToolStart, /) -> None:
        """Start the span of a tool call, and make it the current one of its task."""
        server = server_of(start.name)
        name = start.name[:LONGEST_NAME]
        self._tools[start] = span = self._begin(
            f"{names.EXECUTE_TOOL} {name}",
            SpanKind.INTERNAL if server is None else SpanKind.CLIENT,
            {
                names.OPERATION: names.EXECUTE_TOOL,
                names.CONVERSATION: start.session_id,
                names.TOOL_NAME: name,
                names.TOOL_CALL_ID: start.tool_call_id,
                names.TOOL_TYPE: "function" if server is None else "extension",
                names.MCP_METHOD: None if server is None else names.MCP_TOOLS_CALL,
                names.ARGUMENTS: contents.arguments_of(start.arguments) if self._contents else None,
            },
        )
        _make_current(span)

    def tool_ended(self, end: ToolEnd, /) -> None:
        """End the span."""
        stopped = end.outcome == INTERRUPTED
        said = end.result.result or end.result.error_message if end.result else None
        self._end(
            self._tools.pop(end.start, None),
            {
                names.MCP_SERVER: end.server,
                names.STOPPED: INTERRUPTED if stopped else None,
                names.RESULT: contents.result_text(said) if self._contents and said else None,
            },
            error=None if stopped or end.outcome == OK else end.outcome,
        )

    async def model_calling(self, start: ModelCallStart, /) -> None:
        """Start the span of a model call. Never refuses a call."""
        self._calls[start] = span = self._begin(
            f"{names.CHAT} {start.model}", SpanKind.CLIENT, self._of_request(start)
        )
        _calling.set(start)
        if start.caller is None or start.caller.turn_id is None:  # of a summary: it has no turn
            _name_in_log(span)

    def model_called(self, call: ModelCall, /) -> None:
        """End the span."""
        tokens = call.tokens
        stopped = call.outcome == CANCELLED
        self._end(
            self._calls.pop(call.start, None),
            {
                names.FIRST_CHUNK: call.seconds_to_first_token,
                names.FINISH_REASONS: [tokens.done_reason] if tokens.done_reason else None,
                names.INPUT_TOKENS: tokens.prompt_eval_count,
                names.OUTPUT_TOKENS: tokens.eval_count,
                names.CACHED_TOKENS: tokens.cached_count,
                names.REASONING_TOKENS: tokens.reasoning_count,
                names.STOPPED: CANCELLED if stopped else None,
            },
            error=None if stopped or call.outcome == OK else call.outcome,
        )

    def _of_request(self, start: ModelCallStart) -> dict[Attribute, Value | None]:
        host, port = _address(start.url)
        known: dict[Attribute, Value | None] = {
            names.OPERATION: names.CHAT,
            names.CONVERSATION: start.caller.session_id if start.caller else None,
            names.PROVIDER: names.provider_name(start.provider),
            names.REQUEST_MODEL: start.model,
            names.SERVER_ADDRESS: host,
            names.SERVER_PORT: port,
            names.PURPOSE: start.purpose,
        }
        request = start.request
        if request is None:  # a library makes it, for a structured answer
            return known | {names.STREAM: False, names.OUTPUT_TYPE: "json"}
        known[names.STREAM] = True
        known[names.OUTPUT_TYPE] = None if request.answer_schema is None else "json"
        for option, value in request.options.items():
            attribute = names.OPTIONS.get(option)
            if attribute and isinstance(value, int | float) and not isinstance(value, bool):
                known[attribute] = value
        if self._contents:
            known[names.INSTRUCTIONS] = contents.instructions_of(request.messages)
            known[names.INPUT_MESSAGES] = contents.conversation(request.messages)
        return known

    def _begin(self, name: str, kind: SpanKind, values: Mapping[Attribute, Value | None]) -> Span:
        return self._tracer().start_span(
            join_surrogates(name),
            context=get_current(),
            kind=kind,
            attributes=self._naming.attributes(values),
        )

    def _end(
        self, span: Span | None, values: Mapping[Attribute, Value | None], *, error: str | None
    ) -> None:
        if span is None:
            return
        span.set_attributes(self._naming.attributes({**values, names.ERROR_TYPE: error}))
        if error is not None:
            span.set_status(Status(StatusCode.ERROR))
        span.end()


def _make_current(span: Span) -> None:
    """Make a span the current one of this task, for the rest of the task."""
    attach(set_span_in_context(span, get_current()))
    _name_in_log(span)


def _name_in_log(span: Span) -> None:
    from structlog.contextvars import bind_contextvars  # noqa: PLC0415 - loaded when warm

    found = span.get_span_context()
    if found.is_valid:
        bind_contextvars(
            trace_id=format(found.trace_id, "032x"), span_id=format(found.span_id, "016x")
        )


@lru_cache(maxsize=64)
def _address(url: str | None) -> tuple[str | None, int | None]:
    """Return host and port of a provider's address, without its credentials."""
    if url is None:
        return None, None
    try:
        parts = urlsplit(url)
        return parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return None, None
