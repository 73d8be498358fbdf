"""Implements other vendors' protocols, so that their clients work unchanged (docs/openai.md)."""
