"""Stores journals, signals, idempotency keys, records and the change log as files."""
