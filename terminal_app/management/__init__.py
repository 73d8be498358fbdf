"""Defines the management commands of the app."""

COMMANDS = {
    "chat": "talk to a model in the terminal",
    "send": "send a message to a session and print the answer as it comes",
}
