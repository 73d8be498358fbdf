"""Defines the management commands of the app."""

COMMANDS = {"scripted_llm": "serve the scripted models of test mode by themselves"}
