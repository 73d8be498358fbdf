"""Keeps in Redis what all processes share about tools."""
