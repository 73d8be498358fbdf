"""Checks requests before they reach Django."""
