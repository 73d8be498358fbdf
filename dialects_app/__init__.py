"""Speaks other people's protocols, so that their clients work here unchanged (docs/openai.md)."""
