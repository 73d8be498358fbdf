"""Exports tools as a library: find them in a folder, describe them to a model, run them.

These classes import and run the functions in your own process; the server runs them in others.
:func:`progress` is for the functions themselves.
"""

from tools_app.functions.progress import progress
from tools_app.library.discovery import ToolDiscoveryService
from tools_app.library.execution import (
    ToolExecutionPolicy,
    ToolExecutionResult,
    ToolExecutionService,
    ToolExecutionStatistics,
)
from tools_app.library.schemas import ToolSchemaService

__all__ = [
    "ToolDiscoveryService",
    "ToolExecutionPolicy",
    "ToolExecutionResult",
    "ToolExecutionService",
    "ToolExecutionStatistics",
    "ToolSchemaService",
    "progress",
]
