"""Moves sessions: exports and zip files, other programs' conversations (docs/import.md)."""
