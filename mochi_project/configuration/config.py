"""Declares the settings of the server itself; each app declares its own in ``settings.py``."""

import ipaddress
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from mochi_project.configuration.app_settings import AppSettings
from mochi_project.configuration.constants import DEFAULT_PORT
from mochi_project.configuration.setting_types import (
    DataPath,
    HttpUrl,
    List,
    LogLevel,
    Origins,
    OwnerHeader,
    Proxies,
    PublicUrl,
    RootPathSetting,
    Seconds,
    SecretKey,
    Token,
    Wings,
)

ENV_FILE = ".env"
FORMER_NAMES = {"worker": "background_worker"}
"""Deprecated aliases of renamed settings: still read, with a warning at the start."""

THE_SAME_EVERYWHERE = "to the same value on every node (`openssl rand -hex 32` makes one)"


class ServerSettings(AppSettings):
    """Holds how the server listens, whom it serves, and how it runs."""

    host: str = Field("127.0.0.1", description="Address to listen on")
    port: int = Field(
        DEFAULT_PORT,
        ge=0,
        le=65535,
        description="Port to listen on (5099 in test mode; 0 takes a free one)",
    )
    unix_socket: DataPath | None = Field(None, description="Unix socket to listen on instead")
    unix_socket_mode: Literal["0600", "0660", "0666"] = Field(
        "0600", description="Who may connect: its user (0600), its group (0660), every user (0666)"
    )
    workers: int = Field(1, ge=1, le=256, description="Number of web processes")
    log_level: LogLevel = Field("INFO", description="Least severe level that is logged")
    log_format: Literal["auto", "text", "json"] = Field(
        "auto", description="Log lines for people or as JSON; auto: text on a terminal, else JSON"
    )
    access_log: bool = Field(False, description="Log a line for each request")
    background_worker: bool = Field(
        True, description="Keep the background worker running beside the server"
    )
    shutdown_grace_seconds: float = Field(
        5, ge=0, le=3600, description="Time that running turns get when the server stops"
    )
    write_timeout_seconds: Seconds = Field(
        30, description="How long a client may read nothing before it is dropped"
    )
    allowed_hosts: List = Field(
        default_factory=list, description="Host names beside loopback and IP addresses"
    )
    cors_origins: Origins = Field(
        default_factory=list, description="Origins of front ends elsewhere"
    )
    max_body_bytes: int = Field(1_048_576, ge=1024, description="Largest request body in bytes")
    max_history_bytes: int = Field(
        16_777_216, ge=1024, description="Largest body below `/v1`, with its history, in bytes"
    )
    api_token: Token | None = Field(
        None, description="Bearer token; one is made when the server listens beyond loopback"
    )
    secret_key: SecretKey | None = Field(
        None,
        description="Key that signs tasks, the same on every node; required with "
        "`MOCHI_JOURNAL_URL`, else one is made",
    )
    trusted_proxies: Proxies = Field(
        default_factory=list,
        description=(
            "Proxies that may pass requests on without a token, and tell for whom: addresses, "
            "networks, `unix`"
        ),
    )
    proxies_authenticate: bool = Field(
        True,
        description="Whether trusted proxies spare the token; else only report addresses",
    )
    owner_header: OwnerHeader | None = Field(
        None,
        description="Header in which trusted proxies name the owner whom a request acts for, as "
        "`X-Forwarded-Email`; needs `MOCHI_TRUSTED_PROXIES` and `MOCHI_OWNER_HEADER_SECRET`",
    )
    owner_header_secret: SecretKey | None = Field(
        None,
        validate_default=True,
        description="What these proxies send in `X-Mochi-Proxy-Secret`, which nobody else knows",
    )
    root_path: RootPathSetting = Field(
        "", description="Path below which a proxy offers the server, as `/mochi`"
    )
    public_url: PublicUrl | None = Field(
        None,
        description="Address at which people's browsers reach the server, as "
        "`https://mochi.example.org`: links in notifications begin with it, and logins to MCP "
        "servers come back to it",
    )
    insecure_no_auth: bool = Field(False, description="Listen beyond loopback without a token")
    playground: bool | None = Field(
        None, description="Serve the chat page at `/`; unless set, in test mode and on loopback"
    )
    test_mode: bool = Field(False, description="Answer from a scripted model, offline")
    test_model_url: HttpUrl | None = Field(
        None, description="Scripted model server (`scripted_llm`) to use instead of an own one"
    )
    apps_off: Wings = Field(default_factory=list, description="Apps to leave out, as `usage_app`")

    @field_validator("secret_key")
    @classmethod
    def _nodes_share_a_key(cls, value: SecretKey | None, info: ValidationInfo) -> SecretKey | None:
        if value is None and info.data.get("journal_url") is not None:
            raise ValueError(f"must be set with MOCHI_JOURNAL_URL, {THE_SAME_EVERYWHERE}")
        return value

    @field_validator("owner_header_secret")
    @classmethod
    def _owners_are_named_in_secret(
        cls, value: SecretKey | None, info: ValidationInfo
    ) -> SecretKey | None:
        header = info.data.get("owner_header")
        if (header is None) != (value is None):
            raise ValueError("must be set with MOCHI_OWNER_HEADER, and only with it")
        if header is not None and not info.data.get("trusted_proxies"):
            raise ValueError("needs MOCHI_TRUSTED_PROXIES: the proxies that send it")
        return value

    @property
    def largest_body_bytes(self) -> int:
        """The largest body of any request."""
        return max(self.max_body_bytes, self.max_history_bytes)

    @property
    def resolved_unix_socket(self) -> Path | None:
        """The Unix socket to listen on, absolute; relative ones are taken from where it starts."""
        return self.unix_socket.absolute() if self.unix_socket else None

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can reach the server."""
        return self.unix_socket is not None or is_loopback(self.host)

    @property
    def serves_playground(self) -> bool:
        """Return whether the chat page is served at ``/``."""
        if self.playground is None:
            return self.test_mode or self.is_loopback
        return self.playground


def is_loopback(host: str) -> bool:
    """Return whether ``host`` (a name or an address) is reachable from this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
