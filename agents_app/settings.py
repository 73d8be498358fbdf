"""Declares the settings of agents."""

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from mochi_project.configuration.app_settings import AbsolutePath, AppSettings
from mochi_project.configuration.setting_types import DataPath


class AgentsSettings(AppSettings):
    """Holds where agents and their prompts are, and the bound of their runs."""

    agents_dir: DataPath = Field(Path("agents"), description="Agents")
    planning_prompt_path: DataPath = Field(
        Path("docs/agents/agent_prompt_planning.md"), description="Agents' planning prompt"
    )
    execution_prompt_path: DataPath = Field(
        Path("docs/agents/agent_prompt_execution.md"), description="Agents' execution prompt"
    )
    max_agent_iterations: int = Field(50, ge=1, le=1000, description="Rounds of one agent run")

    resolved_agents_dir: ClassVar = AbsolutePath("agents_dir")
    resolved_planning_prompt_path: ClassVar = AbsolutePath("planning_prompt_path")
    resolved_execution_prompt_path: ClassVar = AbsolutePath("execution_prompt_path")
