"""Reports the state of each session, and streams changes of sessions (docs/decisions/0073)."""
