"""Spans end when their work did, whenever they are named, and hold what was known of it."""

import asyncio
import time

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from usage_app.traces import ended_spans, names
from usage_app.traces.ended_spans import EndedSpans
from usage_app.traces.names import Naming

VALUES = {names.REQUEST_MODEL: "qwen3:14b", names.AGENT: None}


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def tracer(exporter):
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider.get_tracer("test")
    provider.shutdown()


@pytest.fixture
def ended():
    return EndedSpans(Naming(latest=False))


async def test_a_span_ends_when_its_work_did(ended, tracer, exporter):
    ended.add(tracer.start_span("one"), VALUES, error=None)
    after = time.time_ns()
    assert exporter.get_finished_spans() == ()

    await asyncio.to_thread(ended.work_off)

    (span,) = exporter.get_finished_spans()
    assert span.start_time <= span.end_time <= after
    assert span.attributes == {"gen_ai.request.model": "qwen3:14b"}
    assert span.status.is_ok


async def test_an_error_is_its_status_and_its_type(ended, tracer, exporter):
    ended.add(tracer.start_span("one"), VALUES, error="MODEL_ERROR")
    await asyncio.to_thread(ended.work_off)
    (span,) = exporter.get_finished_spans()
    assert not span.status.is_ok
    assert span.attributes["error.type"] == "MODEL_ERROR"


async def test_nobody_has_to_ask_for_it(ended, tracer, exporter, monkeypatch):
    monkeypatch.setattr(ended_spans, "WAIT_SECONDS", 0)
    for count in (1, 2):
        ended.add(tracer.start_span("one"), VALUES, error=None)
        while len(exporter.get_finished_spans()) < count:
            await asyncio.sleep(0)


async def test_spans_of_several_threads_end_once(ended, tracer, exporter):
    for _ in range(100):
        ended.add(tracer.start_span("one"), VALUES, error=None)
    await asyncio.gather(*(asyncio.to_thread(ended.work_off) for _ in range(4)))
    assert len(exporter.get_finished_spans()) == 100


def test_a_span_that_is_not_sampled_is_not_kept(ended):
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    ended.add(provider.get_tracer("test").start_span("one"), VALUES, error=None)
    assert ended.waiting == 0
