"""Exports sessions as a library: ``SessionManager(sessions_dir)``, and the values it works with."""

from msgspec import UNSET

from sessions_app.check import CheckReport
from sessions_app.list_query import SessionPage
from sessions_app.message_editor import MessageChange, MessageEdit
from sessions_app.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from sessions_app.service import SessionManager
from sessions_app.session import (
    AgentSettings,
    Session,
    SessionMetadata,
    ToolSettings,
    WindowConfig,
)
from sessions_app.store.repository import Unreadable
from sessions_app.variants import VariantChoice

__all__ = [
    "UNSET",
    "AgentSettings",
    "AssistantMessage",
    "CheckReport",
    "Message",
    "MessageChange",
    "MessageEdit",
    "Session",
    "SessionManager",
    "SessionMetadata",
    "SessionPage",
    "SystemMessage",
    "ToolCall",
    "ToolMessage",
    "ToolSettings",
    "Unreadable",
    "UserMessage",
    "VariantChoice",
    "WindowConfig",
]
