"""Starts, serves and stops web processes."""
