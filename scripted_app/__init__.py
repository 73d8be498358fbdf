"""Serves scripted models for test mode: offline, and deterministic (docs/test-mode.md)."""
