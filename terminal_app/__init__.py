"""Holds conversations in a terminal: turns, approvals, stops (docs/decisions/0052)."""
