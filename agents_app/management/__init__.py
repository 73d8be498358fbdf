"""Defines the management commands of the app."""

COMMANDS = {"agents": "list, show and check agents"}
