"""Keeps images and files that messages refer to, beside the sessions."""
