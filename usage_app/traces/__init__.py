"""Traces turns, model calls and tool calls as OpenTelemetry spans (docs/traces.md).

Everything but ``names``, ``options`` and ``contents`` imports OpenTelemetry, an extra: it is
imported if traces are enabled.
"""
