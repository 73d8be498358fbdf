"""Declares the settings of other clients' protocols."""

from pydantic import Field

from mochi_project.configuration.app_settings import AppSettings


class DialectsSettings(AppSettings):
    """Holds what clients of other protocols may expect."""

    openwebui_sessions: bool = Field(
        False,
        description="Keep a session for each chat of Open WebUI that names it "
        "(`X-OpenWebUI-Chat-Id`)",
    )
    fetch_images: bool = Field(
        False, description="Fetch what clients of `/v1` name by URL, from public addresses"
    )
