"""Declares the settings of other clients' protocols."""

from typing import Annotated

from pydantic import AfterValidator, Field

from mochi_project.configuration.app_settings import AppSettings
from mochi_project.configuration.setting_types import List

OPEN_WEBUI = "openwebui"
CLIENTS = ("claude-code", "codex", OPEN_WEBUI)


def _checked_clients(names: list[str]) -> list[str]:
    if not set(names) <= set(CLIENTS):
        raise ValueError(f"must list clients of {', '.join(CLIENTS)}")
    return names


Clients = Annotated[List, AfterValidator(_checked_clients)]


class DialectsSettings(AppSettings):
    """Holds what clients of other protocols may expect."""

    client_sessions: Clients = Field(
        default_factory=list,
        description="Clients whose conversations are saved, one session each: `claude-code`, "
        "`codex`, `openwebui`",
    )
    openwebui_sessions: bool = Field(
        False, description="The same as `openwebui` in `MOCHI_CLIENT_SESSIONS`"
    )
    mcp_server: bool = Field(
        False, description="Let MCP clients search and read all saved sessions at `/mcp`"
    )
    fetch_images: bool = Field(
        False, description="Fetch what clients of `/v1` name by URL, from public addresses"
    )

    @property
    def saved_clients(self) -> frozenset[str]:
        """The clients whose conversations are saved."""
        return frozenset([*self.client_sessions, *([OPEN_WEBUI] * self.openwebui_sessions)])
