"""Provides what management commands share: arguments, reports, services."""
