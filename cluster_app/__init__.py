"""Shares sessions, turns and tasks between machines: adapters for Redis and object stores."""
