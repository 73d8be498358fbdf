"""Types the settings that programs give as arguments (``create_app``).

A test compares these with the settings of the server and of all apps.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypedDict

from pydantic import SecretStr

from sessions_app.inbox import WhenBusy
from sessions_app.session import ContextStrategy, OnCrash


class ProviderArguments(TypedDict, total=False):
    """A provider's address, the variable that holds its key, and which API of OpenAI's it has."""

    base_url: str | None
    api_key_env: str | None
    api: Literal["auto", "responses", "chat"]


class SettingArguments(TypedDict, total=False):
    """Every setting but ``ollama_host`` and ``data_dir``, by its lower-case name."""

    host: str
    port: int
    unix_socket: str | Path
    unix_socket_mode: Literal["0600", "0660", "0666"]
    workers: int
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
    log_format: Literal["auto", "text", "json"]
    access_log: bool
    traces: bool
    providers: Mapping[str, ProviderArguments]
    prompt_cache: Literal["5m", "1h", "off"]
    default_model: str
    model_aliases: Sequence[str]
    sessions_dir: str | Path
    tools_dir: str | Path
    agents_dir: str | Path
    agent_chats_dir: str | Path
    system_prompts_dir: str | Path
    workspace: str | Path
    mcp_config_path: str | Path
    planning_prompt_path: str | Path
    execution_prompt_path: str | Path
    summarization_enabled: bool
    summarization_interval_seconds: float
    summary_unsupported_models: Sequence[str]
    summary_model: str
    dynamic_context_window_enabled: bool
    ollama_keep_alive: float | str
    first_window: int | Literal["ollama"]
    context_strategy: ContextStrategy
    background_worker: bool
    max_tool_rounds: int
    max_resumes: int
    on_crash: OnCrash
    when_busy: WhenBusy
    tool_loop_limit: int
    tool_tokens: int
    max_agent_iterations: int
    max_active_turns: int
    max_turns_per_client: int
    max_listeners: int
    turn_timeout_seconds: float
    upstream_timeout_seconds: float
    turn_retention_seconds: float
    session_retention_days: int
    shutdown_grace_seconds: float
    write_timeout_seconds: float
    tool_timeout_seconds: float
    tool_memory_mb: int
    tool_environment: Sequence[str]
    tool_confirmation_timeout_seconds: float
    webhook_url: str
    webhook_events: Sequence[Literal["approval.asked", "turn.done", "turn.failed"]]
    webhook_format: Literal["standard", "ntfy", "slack", "telegram"]
    webhook_secret: str | SecretStr
    journal_url: str
    sessions_url: str
    lease_seconds: float
    journal_timeout_seconds: float
    client_sessions: Sequence[str]
    openwebui_sessions: bool
    mcp_server: bool
    allowed_hosts: Sequence[str]
    cors_origins: Sequence[str]
    max_body_bytes: int
    max_history_bytes: int
    max_attachment_bytes: int
    max_import_bytes: int
    max_attachments: int
    fetch_images: bool
    api_token: str | SecretStr
    secret_key: str | SecretStr
    trusted_proxies: Sequence[str]
    proxies_authenticate: bool
    owner_header: str
    owner_header_secret: str | SecretStr
    root_path: str
    public_url: str
    insecure_no_auth: bool
    playground: bool | None
    metrics: bool
    metrics_by_owner: bool
    test_mode: bool
    test_words_per_second: float
    test_model_url: str
    apps_off: Sequence[str]
