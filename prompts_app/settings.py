"""Declares the settings of system prompts."""

from pathlib import Path

from pydantic import Field

from mochi_project.configuration.app_settings import AppSettings
from mochi_project.configuration.setting_types import DataPath


class PromptsSettings(AppSettings):
    """Holds the directory of system prompts."""

    system_prompts_dir: DataPath = Field(Path("system_prompts"), description="System prompt files")

    @property
    def resolved_system_prompts_dir(self) -> Path:
        """Holds the directory of system prompt files, absolute."""
        return self.absolute(self.system_prompts_dir)


SETTINGS = PromptsSettings
