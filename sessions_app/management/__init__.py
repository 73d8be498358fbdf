"""Defines the management commands of the app."""

COMMANDS = {"sessions": "list, show, delete and check sessions"}
