"""Asks people to approve tool calls, and stores their answers."""
