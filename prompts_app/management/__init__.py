"""Defines the management commands of the app."""

COMMANDS = {"prompts": "list and show system prompt files"}
