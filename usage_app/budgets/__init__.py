"""Keeps model calls within budgets: ``budgets.json`` in the data directory (docs/decisions/0087).

Nothing but ``observer`` is imported before there is such a file.
"""
