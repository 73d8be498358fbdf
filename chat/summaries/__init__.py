"""Summarizes sessions, in the background or on request."""
