"""Turns a request into a claimed turn: preparation, limits, claim."""
