"""Decides whether what a folder can execute, and its ``.env``, may be used (docs/trust.md)."""
