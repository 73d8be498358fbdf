"""Bounds the memory of large answers, returns freed memory, and times garbage collections."""
