"""Stores journals, signals and idempotency keys as files."""
