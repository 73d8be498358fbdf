"""Reads OpenTelemetry's environment variables for attributes and exporters. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

LATEST = "gen_ai_latest_experimental"
OPT_IN = "OTEL_SEMCONV_STABILITY_OPT_IN"
CONTENTS = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_ON_SPANS = frozenset({"true", "1", "span_only", "span_and_event"})
"""The values that mean yes: a boolean in older conventions, a destination in newer ones."""

EXPORTERS = "OTEL_TRACES_EXPORTER"
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"


@dataclass(frozen=True, slots=True)
class SpanOptions:
    """The options of spans.

    Attributes:
        latest_names: Whether attributes have the newest names.
        contents: Whether spans include the content of messages.
    """

    latest_names: bool = False
    contents: bool = False


def read_options(environ: Mapping[str, str]) -> SpanOptions:
    """Return the options that an environment sets."""
    chosen = {each.strip() for each in environ.get(OPT_IN, "").split(",")}
    contents = environ.get(CONTENTS, "").strip().lower()
    return SpanOptions(latest_names=LATEST in chosen, contents=contents in _ON_SPANS)


def exporter_names(environ: Mapping[str, str]) -> list[str]:
    """Return the exporters that an environment sets.

    Raises:
        ValueError: The exporter or the protocol is unknown; the message names the variable.
    """
    found = [each.strip() for each in environ.get(EXPORTERS, "").split(",") if each.strip()]
    unknown = [each for each in found if each not in {"otlp", "console", "none"}]
    if unknown:
        raise ValueError(f"{EXPORTERS} must be otlp, console or none (it is {unknown[0]!r})")
    protocol = next((environ[name] for name in PROTOCOLS if environ.get(name)), PROTOCOL)
    if "otlp" in (found or ["otlp"]) and protocol != PROTOCOL:
        name = next(name for name in PROTOCOLS if environ.get(name))
        raise ValueError(f"{name} must be {PROTOCOL} (it is {protocol!r})")
    return [each for each in found or ["otlp"] if each != "none"]
