"""Opens the exporter of spans: a provider of our own, configured by the standard variables.

It is not made the global provider, which the SDKs of MCP and of vendors use: they would trace
every call a second time.
"""

import os
import sys
import uuid

from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

from usage_app.traces.options import exporter_names

SERVICE = "mochi-server"


def open_provider(version: str) -> TracerProvider:
    """Return a provider that exports in a thread. Call it in the process that traces.

    Raises:
        ValueError: A variable has an invalid value.
    """
    resource = Resource.create(
        {
            "service.version": version,
            "service.instance.id": str(uuid.uuid4()),
            "process.pid": os.getpid(),
        }
    )
    if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: SERVICE}))
    # It is shut down with the services: at the interpreter's exit it could take half a minute.
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    for name in exporter_names(os.environ):
        provider.add_span_processor(BatchSpanProcessor(_exporter(name)))
    return provider


def _exporter(name: str) -> SpanExporter:
    if name == "console":
        return ConsoleSpanExporter(out=sys.stderr)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - slow
        OTLPSpanExporter,
    )

    return OTLPSpanExporter()
