"""Bounds the memory of large answers, and returns freed memory."""
