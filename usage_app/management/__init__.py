"""Defines the management commands of the app."""

COMMANDS = {"usage": "report tokens and costs of model calls"}
