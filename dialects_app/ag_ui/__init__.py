"""Speaks AG-UI 1.0: runs, their events, threads as they are (docs/ag-ui.md)."""
