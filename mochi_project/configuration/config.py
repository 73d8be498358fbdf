"""Defines every setting; :mod:`mochi_project.configuration.loading` reads them."""

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_validator,
)

from mochi_project.configuration.constants import DEFAULT_PORT, SUMMARY_UNSUPPORTED_MODELS
from mochi_project.configuration.provider_settings import Providers
from mochi_project.configuration.setting_types import (
    DataPath,
    HttpUrl,
    JournalUrl,
    List,
    LogLevel,
    LoopLimit,
    Metrics,
    OllamaUrl,
    Origins,
    Proxies,
    RootPathSetting,
    Seconds,
    SecretKey,
    SessionsUrl,
    Token,
    Traces,
    VariableNames,
    Wings,
)
from mochi_project.trust.decision import ALL_TRUSTED, Trust
from mochi_project.trust.records import private_directory
from sessions_app.session import MODEL_NAME_LENGTH, ContextStrategy

ENV_PREFIX = "MOCHI_"
ENV_FILE = ".env"
OBJECTS = frozenset({"providers"})
FORMER_NAMES = {"worker": "background_worker"}
"""Deprecated aliases of renamed settings: still read, with a warning at the start."""


THE_SAME_EVERYWHERE = "to the same value on every node (`openssl rand -hex 32` makes one)"


class MochiSettings(BaseModel):
    """The configuration of one server; ``load_settings`` reads it.

    Directories are relative to ``data_dir``; the ``resolved_*`` properties are absolute.
    """

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        validate_default=True,
        hide_input_in_errors=True,
        allow_inf_nan=False,
    )

    host: str = Field("127.0.0.1", description="Address to listen on")
    port: int = Field(
        DEFAULT_PORT,
        ge=0,
        le=65535,
        description="Port to listen on (5099 in test mode; 0 takes a free one)",
    )
    unix_socket: DataPath | None = Field(
        None, description="Unix socket to listen on instead, for this system's user alone (0600)"
    )
    workers: int = Field(1, ge=1, le=256, description="Number of web processes")
    log_level: LogLevel = Field("INFO", description="Least severe level that is logged")
    log_format: Literal["auto", "text", "json"] = Field(
        "auto", description="Log lines for people or as JSON; auto: text on a terminal, else JSON"
    )
    access_log: bool = Field(False, description="Log a line for each request")
    metrics: Metrics = Field(False, description="Count turns, tokens, tools, ... at `/metrics`")
    traces: Traces = Field(
        False, description="Send a trace of each turn by OTLP, where the `OTEL_` variables say"
    )

    ollama_host: OllamaUrl = Field("http://localhost:11434", description="URL of the Ollama server")
    providers: Providers = Field(
        default_factory=dict,
        description=(
            "Providers: `MOCHI_PROVIDERS__<NAME>__BASE_URL`, `..._API_KEY_ENV`; other names than "
            "`openai`, `anthropic`, `google`, `openrouter` are OpenAI-compatible servers"
        ),
    )

    default_model: str | None = Field(
        None, max_length=MODEL_NAME_LENGTH, description="Model of new sessions that name none"
    )

    data_dir: DataPath = Field(Path(), description="Base directory of all data")
    sessions_dir: DataPath = Field(Path("chat_sessions"), description="Session files")
    tools_dir: DataPath = Field(Path("tools"), description="Tool modules")
    agents_dir: DataPath = Field(Path("agents"), description="Agents")
    agent_chats_dir: DataPath = Field(Path("agents/agent_chats"), description="Sessions of agents")
    system_prompts_dir: DataPath = Field(Path("system_prompts"), description="System prompt files")
    workspace: DataPath = Field(
        Path("workspace"), description="Folder that the example agent `coder` works in"
    )
    mcp_config_path: DataPath = Field(Path("mcp.json"), description="Configuration of MCP servers")
    planning_prompt_path: DataPath = Field(
        Path("docs/agents/agent_prompt_planning.md"), description="Agents' planning prompt"
    )
    execution_prompt_path: DataPath = Field(
        Path("docs/agents/agent_prompt_execution.md"), description="Agents' execution prompt"
    )

    summarization_enabled: bool = Field(True, description="Summarize sessions in the background")
    summarization_interval_seconds: float = Field(
        3, ge=0, le=86_400, description="Least time between two summaries of a session"
    )
    summary_unsupported_models: List = Field(
        default=list(SUMMARY_UNSUPPORTED_MODELS),
        description="Models that can't write structured summaries",
    )
    dynamic_context_window_enabled: bool = Field(
        True, description="Let the context window grow with the conversation"
    )
    context_strategy: ContextStrategy = Field(
        "summarize_history", description="How a conversation that is too long is made to fit"
    )
    background_worker: bool = Field(
        True, description="Keep the background worker running beside the server"
    )

    max_tool_rounds: int = Field(25, ge=1, le=1000, description="Model calls in one turn")
    tool_loop_limit: LoopLimit = Field(5, description="Equal results of a call; 0: any number")
    max_agent_iterations: int = Field(50, ge=1, le=1000, description="Rounds of one agent run")
    max_active_turns: int = Field(
        1300, ge=1, description="Turns that a web process may run at once"
    )
    max_turns_per_client: int = Field(
        0, ge=0, description="Turns that one address may run in a web process; 0: any number"
    )
    max_listeners: int = Field(
        1000, ge=1, description="Streams of `GET /events` that a web process may have at once"
    )
    turn_timeout_seconds: Seconds = Field(1800, description="Longest time a turn may take")
    upstream_timeout_seconds: Seconds = Field(300, description="Longest silence of a model")
    turn_retention_seconds: float = Field(
        600, ge=0, description="How long a finished turn can be re-attached to"
    )
    session_retention_days: int = Field(
        0,
        ge=0,
        le=36500,
        description="Days without changes after which sessions are deleted, except pinned and "
        "imported ones; 0: never",
    )
    shutdown_grace_seconds: float = Field(
        5, ge=0, le=3600, description="Time that running turns get when the server stops"
    )
    write_timeout_seconds: Seconds = Field(
        30, description="How long a client may read nothing before it is dropped"
    )
    tool_timeout_seconds: Seconds = Field(60, description="Longest time of one tool call")
    tool_memory_mb: int = Field(
        4096, ge=64, description="Address space of a tool process, where the system can limit it"
    )
    tool_environment: VariableNames = Field(
        default_factory=list, description="Variables that tools see although they hold keys"
    )
    tool_confirmation_timeout_seconds: Seconds = Field(
        300, description="Time to answer a tool confirmation"
    )

    journal_url: JournalUrl | None = Field(
        None,
        repr=False,
        description="Redis or Valkey for what is short-lived, so that several machines share it: "
        "`redis://host:6379/0`, `rediss://`, `valkey://`, `unix://`, "
        "`redis+sentinel://h1,h2,h3/name/0`",
    )
    sessions_url: SessionsUrl | None = Field(
        None,
        repr=False,
        description="Object store for what is kept: `s3://bucket/prefix?endpoint=...&region=...`, "
        "`az://`, `gs://`; needs `MOCHI_JOURNAL_URL`",
    )
    lease_seconds: float = Field(
        6, ge=1, le=600, description="After which silence a process on another machine is dead"
    )
    journal_timeout_seconds: Seconds = Field(
        15, description="How long turns bear that `MOCHI_JOURNAL_URL` does not answer"
    )

    openwebui_sessions: bool = Field(
        False,
        description="Keep a session for each chat of Open WebUI that names it "
        "(`X-OpenWebUI-Chat-Id`)",
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
    max_attachment_bytes: int = Field(
        20 * 1_048_576, ge=1024, description="Largest image or file of a message, in bytes"
    )
    max_import_bytes: int = Field(
        128 * 1_048_576, ge=1024, description="Largest file of `POST /import`, in bytes"
    )
    max_attachments: int = Field(
        20, ge=0, le=100, description="How many images and files a message may have"
    )
    fetch_images: bool = Field(
        False, description="Fetch what clients of `/v1` name by URL, from public addresses"
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
    root_path: RootPathSetting = Field(
        "", description="Path below which a proxy offers the server, as `/mochi`"
    )
    insecure_no_auth: bool = Field(False, description="Listen beyond loopback without a token")

    playground: bool | None = Field(
        None, description="Serve the chat page at `/`; unless set, in test mode and on loopback"
    )
    test_mode: bool = Field(False, description="Answer from a scripted model, offline")
    test_words_per_second: float = Field(
        50, ge=0, description="Pace of the scripted model; 0 is unpaced"
    )
    test_model_url: HttpUrl | None = Field(
        None, description="Scripted model server (`scripted_llm`) to use instead of an own one"
    )
    apps_off: Wings = Field(default_factory=list, description="Apps to leave out, as `usage_app`")

    _trust: Trust = PrivateAttr(default=ALL_TRUSTED)
    _keys: Mapping[str, str] = PrivateAttr(default_factory=dict)

    def with_trust(self, trust: Trust) -> "MochiSettings":
        """Return these settings with a decision on the trust of the data folder."""
        copy = self.model_copy()
        copy._trust = trust  # noqa: SLF001 - of this class
        return copy

    def with_keys(self, variables: Mapping[str, str | None]) -> "MochiSettings":
        """Return these settings with the keys among the variables of a ``.env``."""
        copy = self.model_copy()
        copy._keys = {  # noqa: SLF001 - of this class
            name: value
            for name, value in variables.items()
            if value and not name.upper().startswith(ENV_PREFIX)
        }
        return copy

    def key_of(self, variable: str) -> str | None:
        """Return the key in a variable: of the environment, else of ``.env``.

        Keys of ``.env`` are not put into the environment, which tools and MCP servers inherit.
        """
        return os.environ.get(variable) or self._keys.get(variable)

    @field_validator("sessions_url")
    @classmethod
    def _nodes_share_a_journal(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("journal_url", "unusable") is None:
            raise ValueError("needs MOCHI_JOURNAL_URL, too: it shows which nodes are alive")
        return value

    @field_validator("secret_key")
    @classmethod
    def _nodes_share_a_key(cls, value: SecretKey | None, info: ValidationInfo) -> SecretKey | None:
        if value is None and info.data.get("journal_url") is not None:
            raise ValueError(f"must be set with MOCHI_JOURNAL_URL, {THE_SAME_EVERYWHERE}")
        return value

    @property
    def largest_body_bytes(self) -> int:
        """The largest body of any request."""
        return max(self.max_body_bytes, self.max_history_bytes)

    @property
    def resolved_data_dir(self) -> Path:
        """The base directory, absolute."""
        return self.data_dir.resolve()

    @property
    def resolved_sessions_dir(self) -> Path:
        """The directory of session files, absolute."""
        return self._resolve(self.sessions_dir)

    @property
    def resolved_tools_dir(self) -> Path:
        """The directory of tool modules, absolute."""
        return self._resolve(self.tools_dir)

    @property
    def resolved_agents_dir(self) -> Path:
        """The directory of agents, absolute."""
        return self._resolve(self.agents_dir)

    @property
    def resolved_agent_chats_dir(self) -> Path:
        """The directory of agents' sessions, absolute."""
        return self._resolve(self.agent_chats_dir)

    @property
    def resolved_system_prompts_dir(self) -> Path:
        """The directory of system prompt files, absolute."""
        return self._resolve(self.system_prompts_dir)

    @property
    def resolved_workspace(self) -> Path:
        """The folder that the example agent ``coder`` works in, absolute."""
        return self._resolve(self.workspace)

    @property
    def resolved_mcp_config_path(self) -> Path:
        """The MCP servers' configuration file, absolute."""
        return self._resolve(self.mcp_config_path)

    @property
    def resolved_planning_prompt_path(self) -> Path:
        """The planning prompt's file, absolute."""
        return self._resolve(self.planning_prompt_path)

    @property
    def resolved_execution_prompt_path(self) -> Path:
        """The execution prompt's file, absolute."""
        return self._resolve(self.execution_prompt_path)

    @property
    def resolved_unix_socket(self) -> Path | None:
        """The Unix socket to listen on, absolute; relative ones are taken from where it starts."""
        return self.unix_socket.absolute() if self.unix_socket else None

    @property
    def resolved_state_dir(self) -> Path:
        """The directory of the server's own state (``.mochi``), absolute."""
        return self.resolved_data_dir / ".mochi"

    @property
    def resolved_private_dir(self) -> Path:
        """The directory of secrets and queued tasks, absolute; outside of an untrusted folder."""
        if self.trust.trusted:
            return self.resolved_state_dir
        return private_directory(self.resolved_data_dir)

    @property
    def trust(self) -> Trust:
        """The parts of the data folder that may be used; all of them if a program replaced it."""
        is_about_it = self._trust.folder in {None, self.resolved_data_dir}
        return self._trust if is_about_it else ALL_TRUSTED

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

    def _resolve(self, path: Path) -> Path:
        return (self.resolved_data_dir / path).resolve()


def is_loopback(host: str) -> bool:
    """Return whether ``host`` (a name or an address) is reachable from this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
