"""Keeps system prompts: ``.md`` and ``.txt`` files in one directory."""
