"""Implements AG-UI 1.0: runs, their events, and snapshots of threads (docs/ag-ui.md)."""
