"""Defines the management commands, and what they share."""

COMMANDS = {
    "docs": "read the guides of this version, as docs events",
    "doctor": "say what works, what does not, and what to do about it",
    "export_openapi": "print the OpenAPI schema, for generators of clients",
    "init": "write example tools, agents, prompts and an MCP configuration",
    "keys": "make keys for people and programs, list, revoke and rotate them",
    "qcluster": "run the background worker by itself, beside --no-worker servers",
    "trust": "trust what a folder can execute, and its .env",
}
