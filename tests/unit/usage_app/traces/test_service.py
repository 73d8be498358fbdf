"""One process traces: opened when it is used, flushed and closed within bounds."""

import asyncio
import threading

import pytest

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
