"""Stores sessions and related data in an object store."""
