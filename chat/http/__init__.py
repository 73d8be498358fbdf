"""Parses chat requests and encodes the answers."""
