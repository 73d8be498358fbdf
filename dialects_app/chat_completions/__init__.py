"""Speaks ``/v1/chat/completions``: requests, answers, the projection of a turn's events."""
