"""Stores sessions with their messages and settings. The lowest app, which imports no other."""
