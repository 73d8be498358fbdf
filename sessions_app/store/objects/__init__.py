"""Keeps sessions, and what belongs to them, in an object store."""
