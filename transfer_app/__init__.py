"""Exports sessions, and imports archives and other programs' conversations (docs/import.md)."""
