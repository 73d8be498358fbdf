"""Declares the settings of system prompts."""

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from mochi_project.configuration.app_settings import AbsolutePath, AppSettings
from mochi_project.configuration.setting_types import DataPath


class PromptsSettings(AppSettings):
    """Holds the directory of system prompts: that of all owners, and that of one."""

    system_prompts_dir: DataPath = Field(Path("system_prompts"), description="System prompt files")

    resolved_system_prompts_dir: ClassVar = AbsolutePath("system_prompts_dir")
    own_system_prompts_dir: ClassVar = AbsolutePath("system_prompts_dir", of_owner=True)
