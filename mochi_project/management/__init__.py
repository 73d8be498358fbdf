"""Defines the management commands, and what they share."""
