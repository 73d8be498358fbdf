"""Selects what a model request sends, and sizes the context window."""
