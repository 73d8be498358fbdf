"""Context windows, estimates and history processors as a library, without a server."""

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
from chat.context.window import Decision
from chat.context.window_service import DynamicContextWindowService

__all__ = [
    "Calibration",
    "ChainedProcessor",
    "Decision",
    "DynamicContextWindowService",
    "FilterHistory",
    "FnProcessor",
    "HistoryProcessor",
    "SummarizeHistory",
    "TruncateByTokens",
    "TruncateHistory",
    "calibrate",
    "estimate_messages",
]
