"""Runs Django's async views without threads."""
