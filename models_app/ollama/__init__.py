"""Talks to Ollama: wire format, connections, inventory, library clients."""
