"""Implements ``/v1/chat/completions``: requests, answers, and the conversion of a turn's events."""
