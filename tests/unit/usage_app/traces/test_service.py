"""One process traces: opened when it is used, flushed and closed within bounds."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from chat import tasks
from tests.services import install_services
from tests.unit.usage_app.traces.conftest import MODEL, Traced, block
from usage_app.observers import Observers
from usage_app.traces import service
from usage_app.traces.service import TraceService


class Provider:
    """A provider that notes what it is asked, and may never come to an end with it."""

    def __init__(self, *, hangs: bool = False) -> None:
        self.asked: list[str] = []
        self.over = threading.Event()
        if not hangs:
            self.over.set()

    def get_tracer(self, name: str, version: str) -> tuple[str, str]:
        return name, version

    def force_flush(self) -> None:
        self.over.wait()
        self.asked.append("flush")

    def shutdown(self) -> None:
        self.over.wait()
        self.asked.append("shutdown")


class Opener:
    """Opens providers, and counts them."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.versions: list[str] = []

    def __call__(self, version: str) -> Provider:
        self.versions.append(version)
        return self.provider


async def test_nothing_is_opened_before_the_first_span_and_then_once():
    opener = Opener(Provider())
    traces = TraceService("1.2", opener)
    await traces.flush()
    await traces.aclose()
    assert opener.versions == []

    both = await asyncio.gather(asyncio.to_thread(traces.open), asyncio.to_thread(traces.open))

    assert traces.tracer() == ("mochi-server", "1.2")
    assert both[0] is both[1]
    assert opener.versions == ["1.2"]


async def test_what_has_ended_is_exported_at_the_end_and_once():
    provider = Provider()
    traces = TraceService("1", Opener(provider))
    traces.tracer()

    await traces.flush()
    await traces.aclose()
    await traces.aclose()
    await traces.flush()

    assert provider.asked == ["flush", "shutdown"]


@pytest.mark.parametrize("end", ["flush", "aclose"])
async def test_a_receiver_that_is_silent_holds_nobody_up(monkeypatch, end):
    monkeypatch.setattr(service, "EXPORT_SECONDS", 0.01)
    provider = Provider(hangs=True)
    traces = TraceService("1", Opener(provider))
    traces.tracer()

    await getattr(traces, end)()

    assert provider.asked == []
    provider.over.set()


NEVER = 3_600_000
"""In milliseconds: nothing is exported because of the time."""


async def exported_late(traced: Traced) -> InMemorySpanExporter:
    """Return an exporter that gets spans when they are flushed, and not before."""
    traces = traced.services.get(Observers).traces
    assert traces is not None
    exporter = InMemorySpanExporter()
    provider, _ = await asyncio.to_thread(traces.open)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=NEVER))
    return exporter


@pytest.mark.allow_blocking
async def test_the_end_of_a_server_exports_what_it_stopped_too(traced: Traced) -> None:
    exporter = await exported_late(traced)
    await traced.open(block("Half", stall_seconds=60, stall_after=1))
    await traced.models.wait_for_open_streams(1)

    await traced.services.aclose()

    names = [(span.name, span.kind.name) for span in exporter.get_finished_spans()]
    assert names == [(f"chat {MODEL}", "CLIENT"), (f"chat {MODEL}", "INTERNAL")]


@pytest.mark.allow_blocking
async def test_a_summary_in_the_background_is_exported_with_its_task(
    traced_with: Callable[..., Any],
) -> None:
    web: Traced = await traced_with(summarization_interval_seconds=0)
    opened = await web.say(block("Hello!"))
    background: Traced = await traced_with(summarization_interval_seconds=0)
    exporter = await exported_late(background)
    install_services(background.services)

    def work() -> tuple[str, Sequence[ReadableSpan]]:
        try:
            return tasks.summarize(opened.session_id), exporter.get_finished_spans()
        finally:  # where its connections belong to
            tasks.task_loop.run(background.services.aclose())
            tasks.task_loop.close()

    try:
        outcome, spans = await asyncio.to_thread(work)
    finally:
        install_services(None)

    assert outcome == "done"
    summary = spans[-1]
    assert summary.attributes is not None
    assert summary.attributes["mochi.purpose"] == "summary"
    assert summary.parent is None
