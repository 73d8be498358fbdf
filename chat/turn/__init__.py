"""Runs a turn: state machine, model calls, tool calls, session writes."""
