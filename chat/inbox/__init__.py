"""Holds messages that wait for a turn: service, streams, routes (docs/decisions/0176)."""
