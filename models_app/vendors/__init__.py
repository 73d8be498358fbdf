"""Talks to Anthropic, Google, OpenAI, OpenRouter and compatible servers."""
