"""A provider is made of the standard variables, and is not the program's own."""

import json
import os

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from usage_app.traces.exporting import open_provider

pytestmark = pytest.mark.allow_blocking


@pytest.fixture
def opened(monkeypatch):
    providers = []

    def open_with(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        providers.append(open_provider("1.2"))
        return providers[-1]

    yield open_with
    for provider in providers:
        provider.shutdown()


def test_spans_say_which_server_they_are_of(opened):
    attributes = opened(OTEL_TRACES_EXPORTER="none").resource.attributes

    assert attributes["service.name"] == "mochi-server"
    assert attributes["service.version"] == "1.2"
    assert attributes["process.pid"] == os.getpid()


def test_each_process_is_an_instance(opened):
    one, other = (opened(OTEL_TRACES_EXPORTER="none").resource.attributes for _ in range(2))

    assert one["service.instance.id"] != other["service.instance.id"]


@pytest.mark.parametrize(
    "variables",
    [
        {"OTEL_SERVICE_NAME": "mine"},
        {"OTEL_RESOURCE_ATTRIBUTES": "service.name=mine,team=blue"},
    ],
)
def test_the_name_can_be_chosen(opened, variables):
    provider = opened(OTEL_TRACES_EXPORTER="none", **variables)

    assert provider.resource.attributes["service.name"] == "mine"


def test_spans_are_sent_by_otlp_by_default(opened, monkeypatch):
    made = []
    monkeypatch.setattr(
        OTLPSpanExporter, "export", lambda _, spans: made.append([span.name for span in spans])
    )
    provider = opened()
    provider.get_tracer("test").start_span("one").end()

    assert provider.force_flush()

    assert made == [["one"]]


def test_spans_are_sent_by_a_thread_and_not_by_the_event_loop(opened, monkeypatch):
    processors = []
    monkeypatch.setattr(
        BatchSpanProcessor, "on_end", lambda self, span: processors.append(span.name)
    )
    provider = opened()

    provider.get_tracer("test").start_span("one").end()

    assert processors == ["one"]


def test_spans_can_be_written_to_the_terminal(opened, capsys):
    provider = opened(OTEL_TRACES_EXPORTER="console")

    provider.get_tracer("test").start_span("one").end()
    provider.force_flush()

    assert json.loads(capsys.readouterr().err)["name"] == "one"


def test_the_programs_own_provider_is_left_alone(opened):
    before = trace.get_tracer_provider()

    assert opened(OTEL_TRACES_EXPORTER="none") is not before

    assert trace.get_tracer_provider() is before


def test_a_disabled_sdk_makes_no_spans(opened):
    provider = opened(OTEL_TRACES_EXPORTER="none", OTEL_SDK_DISABLED="true")

    assert not provider.get_tracer("test").start_span("one").is_recording()
