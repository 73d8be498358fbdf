"""Runs the background worker, and queues its tasks."""
