"""Reads and writes the headers of W3C Trace Context.

Malformed headers are ignored, as the specification demands, and a new trace begins.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import INVALID_SPAN, Span, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"
_NO_HEADERS: Mapping[str, str] = {}

_propagator = TraceContextTextMapPropagator()


def headers_of(span: Span) -> Mapping[str, str]:
    """Return headers that make a span the parent of another server's spans."""
    if not span.get_span_context().is_valid:
        return _NO_HEADERS
    headers: dict[str, str] = {}
    _propagator.inject(headers, context=set_span_in_context(span, Context()))
    return headers


def context_of(headers: Iterable[tuple[bytes, bytes]]) -> Context | None:
    """Return the trace context of a request; None without exactly one.

    Args:
        headers: The headers in ASGI's form, with lower-case names.
    """
    parents: list[str] = []
    states: list[str] = []
    for name, value in headers:
        if name == b"traceparent":
            parents.append(value.decode("latin-1"))
        elif name == b"tracestate":
            states.append(value.decode("latin-1"))
    if len(parents) != 1:
        return None
    carrier = {TRACEPARENT: parents[0]} | ({TRACESTATE: ",".join(states)} if states else {})
    context = _propagator.extract(carrier, context=Context())
    span = get_current_span(context)
    return None if span is INVALID_SPAN or not span.get_span_context().is_valid else context


class IncomingTraces:
    """Makes the turns of a request children of the span in its ``traceparent`` header.

    A turn runs in a task started by its request, and tasks inherit the context. If the surrounding
    program has a span for the request, that one is the parent.

    Args:
        app: The ASGI application.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http" or get_current_span().get_span_context().is_valid:
            await self._app(scope, receive, send)
            return
        context = context_of(scope["headers"])
        if context is None:
            await self._app(scope, receive, send)
            return
        token = attach(context)
        try:
            await self._app(scope, receive, send)
        finally:
            detach(token)
