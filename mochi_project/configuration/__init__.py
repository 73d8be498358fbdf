"""Reads and validates settings, secrets, logging and test mode."""
