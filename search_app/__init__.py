"""Searches messages, titles and summaries (docs/front-end.md, docs/decisions/0078)."""
