"""Says what goes on in sessions, and streams what changes (docs/decisions/0073)."""
