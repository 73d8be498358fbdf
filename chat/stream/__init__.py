"""Defines a turn's events, and numbers and delivers them to its listeners."""
