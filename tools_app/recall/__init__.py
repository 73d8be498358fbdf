"""Finds and reads saved conversations for models: `search_conversations` and two more tools."""
