"""Defines one management command in each module."""
