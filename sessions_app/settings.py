"""Declares the settings of sessions and their files."""

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from mochi_project.configuration.app_settings import AbsolutePath, AppSettings
from mochi_project.configuration.setting_types import DataPath


class SessionsSettings(AppSettings):
    """Holds the directories of sessions, how long they stay, and the bounds of attachments."""

    sessions_dir: DataPath = Field(Path("chat_sessions"), description="Session files")
    agent_chats_dir: DataPath = Field(Path("agents/agent_chats"), description="Sessions of agents")
    session_retention_days: int = Field(
        0,
        ge=0,
        le=36500,
        description="Days without changes after which sessions are deleted, except pinned and "
        "imported ones; 0: never",
    )
    max_attachment_bytes: int = Field(
        20 * 1_048_576, ge=1024, description="Largest image or file of a message, in bytes"
    )
    max_attachments: int = Field(
        20, ge=0, le=100, description="How many images and files a message may have"
    )

    resolved_sessions_dir: ClassVar = AbsolutePath("sessions_dir", of_owner=True)
    resolved_agent_chats_dir: ClassVar = AbsolutePath("agent_chats_dir", of_owner=True)
