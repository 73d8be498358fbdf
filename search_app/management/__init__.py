"""Defines the management commands of the app."""

COMMANDS = {"search": "find words in all conversations"}
