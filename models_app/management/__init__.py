"""Defines the management commands of the app."""

COMMANDS = {"models": "list and show the models that can chat"}
