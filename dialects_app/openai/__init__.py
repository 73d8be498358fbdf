"""Holds what chat completions and responses share: ids, errors, bodies."""
