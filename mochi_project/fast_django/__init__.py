"""Runs Django and Ninja with fewer steps per request."""
