"""Keeps sessions: their messages, their settings, their files. The lowest app."""
