"""Defines the management commands of the app."""
