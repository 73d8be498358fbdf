"""Implements an MCP server over HTTP: saved conversations and prompts for other programs."""
