"""Exports context windows, estimates and history processors, without a server."""

from chat.context.processors import (
    ChainedProcessor,
    FilterHistory,
    FnProcessor,
    HistoryProcessor,
    SummarizeHistory,
    TruncateByTokens,
    TruncateHistory,
)
from chat.context.tokens import Calibration, calibrate, estimate_messages
from chat.context.window import DynamicContextWindowService, WindowChoice

__all__ = [
    "Calibration",
    "ChainedProcessor",
    "DynamicContextWindowService",
    "FilterHistory",
    "FnProcessor",
    "HistoryProcessor",
    "SummarizeHistory",
    "TruncateByTokens",
    "TruncateHistory",
    "WindowChoice",
    "calibrate",
    "estimate_messages",
]
