"""Stores the log of tool calls as files."""
