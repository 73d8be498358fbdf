"""Declares the settings of agents."""

from pathlib import Path

from pydantic import Field

from mochi_project.configuration.app_settings import AppSettings
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

    @property
    def resolved_agents_dir(self) -> Path:
        """The directory of agents, absolute."""
        return self.absolute(self.agents_dir)

    @property
    def resolved_planning_prompt_path(self) -> Path:
        """The planning prompt's file, absolute."""
        return self.absolute(self.planning_prompt_path)

    @property
    def resolved_execution_prompt_path(self) -> Path:
        """The execution prompt's file, absolute."""
        return self.absolute(self.execution_prompt_path)


SETTINGS = AgentsSettings
