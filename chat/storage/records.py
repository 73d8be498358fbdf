"""Names the records of turns, which are stored beside sessions."""

from sessions_app.ids_and_clock import SESSION_ID

REMOVED = "removed"
"""The kind of the mark of a turn whose journal was discarded as messages of it were deleted."""
TURN_KINDS = ("request", "end", "deleted", REMOVED)
"""The kinds of records of a turn. The first three are of one requested in another protocol: request
fields that a session does not store, the outcome, and a deletion marker."""
TURN_RECORDS = rf"{SESSION_ID}/[0-9a-f]{{20}}\.(?:{'|'.join(TURN_KINDS)})"
"""A regular expression for the names of these records."""
