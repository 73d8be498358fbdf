"""Stores sessions as files: atomic writes, locks, claims, listing, cache."""
