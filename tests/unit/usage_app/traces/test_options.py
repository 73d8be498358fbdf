"""What the standard variables ask for."""

import pytest

from usage_app.traces.options import CONTENTS, OPT_IN, SpanOptions, exporter_names, read_options


def test_by_default_spans_have_former_names_and_no_contents():
    assert read_options({}) == SpanOptions(latest_names=False, contents=False)


@pytest.mark.parametrize(
    ("value", "latest"),
    [
        ("gen_ai_latest_experimental", True),
        ("http/dup, gen_ai_latest_experimental", True),
        ("gen_ai", False),
        ("", False),
    ],
)
def test_the_newest_names_are_opted_into(value, latest):
    assert read_options({OPT_IN: value}).latest_names is latest


@pytest.mark.parametrize(
    ("value", "contents"),
    [
        ("true", True),
        ("TRUE", True),
        ("span_only", True),
        ("SPAN_AND_EVENT", True),
        ("event_only", False),
        ("no_content", False),
        ("false", False),
        ("", False),
    ],
)
def test_contents_are_opted_into(value, contents):
    assert read_options({CONTENTS: value}).contents is contents


@pytest.mark.parametrize(
    ("environ", "names"),
    [
        ({}, ["otlp"]),
        ({"OTEL_TRACES_EXPORTER": "otlp,console"}, ["otlp", "console"]),
        ({"OTEL_TRACES_EXPORTER": "none"}, []),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, ["otlp"]),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_TRACES_EXPORTER": "console"}, ["console"]),
        (
            {
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
            },
            ["otlp"],
        ),
    ],
)
def test_exporters_are_chosen_by_the_standard_variables(environ, names):
    assert exporter_names(environ) == names


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER must be otlp, console or none"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL must be http/proto"),
    ],
)
def test_what_there_is_not_is_refused_by_its_variable(environ, message):
    with pytest.raises(ValueError, match=message):
        exporter_names(environ)
