"""Counts turns, model calls and tool calls for Prometheus; an extra (docs/metrics.md)."""
