"""Exports the directory that an agent's tools are confined to, for the functions in ``agents/``."""

from agents_app.workspace import Workspace, WorkspaceError

__all__ = ["Workspace", "WorkspaceError"]
WorkspaceError.__module__ = __name__  # for tracebacks
