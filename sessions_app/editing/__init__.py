"""Changes the messages of a session: edits, variants."""
