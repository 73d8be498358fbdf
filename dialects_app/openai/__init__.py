"""Shared by chat completions and responses: ids, errors, request bodies."""
