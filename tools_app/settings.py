"""Declares the settings of tools and MCP servers."""

import re
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from mochi_project.configuration.app_settings import AbsolutePath, AppSettings
from mochi_project.configuration.setting_types import DataPath, List, Seconds

_OWN_SECRETS = frozenset({"MOCHI_API_TOKEN", "MOCHI_SECRET_KEY"})
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _checked_names(names: list[str]) -> list[str]:
    for name in names:
        if not _VARIABLE.fullmatch(name):
            raise ValueError("must list names of environment variables")
        if name.upper() in _OWN_SECRETS:
            raise ValueError(f"can't list {name}: its holder could approve its own calls")
    return names


VariableNames = Annotated[List, AfterValidator(_checked_names)]


class ToolsSettings(AppSettings):
    """Holds where tools are, and what they may use."""

    tools_dir: DataPath = Field(Path("tools"), description="Tool modules")
    workspace: DataPath = Field(
        Path("workspace"), description="Folder that the example agent `coder` works in"
    )
    mcp_config_path: DataPath = Field(Path("mcp.json"), description="Configuration of MCP servers")
    tool_timeout_seconds: Seconds = Field(60, description="Longest time of one tool call")
    tool_memory_mb: int = Field(
        4096, ge=64, description="Address space of a tool process, where the system can limit it"
    )
    tool_environment: VariableNames = Field(
        default_factory=list, description="Variables that tools see although they hold keys"
    )

    resolved_tools_dir: ClassVar = AbsolutePath("tools_dir")
    resolved_workspace: ClassVar = AbsolutePath("workspace", of_owner=True)
    resolved_mcp_config_path: ClassVar = AbsolutePath("mcp_config_path")
