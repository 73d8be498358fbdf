"""Stores the log of tool calls and generations as files."""
