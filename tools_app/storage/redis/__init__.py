"""Stores in Redis the tool data that all processes share."""
