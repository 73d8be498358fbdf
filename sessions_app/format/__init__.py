"""Converts sessions to the bytes of their files and back."""
