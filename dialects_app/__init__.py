"""Dialects: the protocols of other people's clients, spoken over the same turns."""
