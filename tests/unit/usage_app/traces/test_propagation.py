"""Trace contexts that come with requests: as W3C Trace Context has them, or not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.context import Context, attach, get_current
from opentelemetry.trace import (
    INVALID_SPAN,
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)

from usage_app.traces.propagation import IncomingTraces, context_of, headers_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


def found(*headers):
    """Return the trace and the span that headers name; None for none."""
    context = context_of([(name.encode(), value.encode("latin-1")) for name, value in headers])
    if context is None:
        return None
    span = get_current_span(context).get_span_context()
    return f"{span.trace_id:032x}", f"{span.span_id:016x}"


@pytest.mark.parametrize(
    "value", [PARENT, f"00-{TRACE}-{SPAN}-00", f"cc-{TRACE}-{SPAN}-01-of-a-later-version"]
)
def test_a_parent_is_understood(value):
    assert found(("traceparent", value)) == (TRACE, SPAN)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "00",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}0-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-zz",
        f"00-{TRACE}-{SPAN}-01, 00-{TRACE}-{SPAN}-01",
        "\xe9" * 55,
    ],
)
def test_a_parent_that_is_malformed_is_none(value):
    assert found(("traceparent", value)) is None


def test_two_parents_are_none():
    assert found(("traceparent", PARENT), ("traceparent", PARENT)) is None


@given(st.lists(st.tuples(st.sampled_from(["traceparent", "tracestate", "host"]), st.text())))
def test_no_headers_break_a_request(headers):
    found(*[(name, value.encode("utf-8", "replace").decode("latin-1")) for name, value in headers])


def test_states_in_several_headers_are_one():
    context = context_of(
        [
            (b"tracestate", b"a=1"),
            (b"traceparent", PARENT.encode()),
            (b"tracestate", b"b=2"),
        ]
    )

    assert headers_of(get_current_span(context)) == {"traceparent": PARENT, "tracestate": "a=1,b=2"}


def test_a_state_that_is_malformed_does_not_cost_the_parent():
    assert found(("traceparent", PARENT), ("tracestate", "no state\r\nx: y")) == (TRACE, SPAN)


def test_no_span_has_no_headers():
    assert headers_of(INVALID_SPAN) == {}


class Application:
    """Keeps the span that was the current one while it served."""

    def __init__(self, fails=False):
        self.spans = []
        self._fails = fails

    async def __call__(self, scope, receive, send):
        self.spans.append(get_current_span().get_span_context())
        if self._fails:
            raise ZeroDivisionError


def scope(kind="http", *values):
    return {"type": kind, "headers": [(b"traceparent", value.encode()) for value in values]}


async def nothing(*_):
    return {}


async def test_a_request_is_served_below_its_parent_and_the_next_is_not():
    application = Application()
    app = IncomingTraces(application)

    await app(scope("http", PARENT), nothing, nothing)
    await app(scope("http"), nothing, nothing)
    await app(scope("http", "nonsense"), nothing, nothing)
    await app({"type": "lifespan"}, nothing, nothing)

    first, *others = application.spans
    assert (f"{first.trace_id:032x}", f"{first.span_id:016x}") == (TRACE, SPAN)
    assert not any(span.is_valid for span in others)


async def test_a_request_that_fails_leaves_nothing_behind():
    before = get_current()

    with pytest.raises(ZeroDivisionError):
        await IncomingTraces(Application(fails=True))(scope("http", PARENT), nothing, nothing)

    assert get_current() == before


async def test_a_span_of_the_program_around_it_is_the_parent():
    outer = SpanContext(1, 2, is_remote=False, trace_flags=TraceFlags(1))
    application = Application()
    attach(set_span_in_context(NonRecordingSpan(outer), Context()))  # in this test's own task

    await IncomingTraces(application)(scope("http", PARENT), nothing, nothing)

    assert application.spans == [outer]
