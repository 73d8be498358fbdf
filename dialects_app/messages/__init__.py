"""Implements Anthropic's `/v1/messages`: requests, answers, conversion of a turn's events."""
