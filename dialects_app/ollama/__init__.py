"""Implements Ollama's own protocol, as translations to and from chat completions."""
