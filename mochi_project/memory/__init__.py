"""Bounds the memory of large bodies and answers, and returns freed memory."""
