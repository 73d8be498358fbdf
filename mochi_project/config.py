"""Every ``MOCHI_`` variable, typed. The only place that reads the environment."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1", "[::1]"})
TEST_MODE_PORT = 5099

Seconds = Annotated[float, Field(gt=0, le=86_400 * 365)]
List = Annotated[list[str], NoDecode]


class ProviderConfig(BaseModel):
    """A provider of one's own: ``MOCHI_PROVIDERS__<NAME>__BASE_URL`` and ``..._API_KEY_ENV``."""

    base_url: str
    api_key_env: str | None = None


class ConfigurationError(Exception):
    """A variable or flag has an unusable value; the message names it and says what is allowed."""


class MochiSettings(BaseSettings):
    """The configuration of one server, from ``MOCHI_`` variables, ``.env`` and flags.

    Directories are relative to ``data_dir``; the ``resolved_*`` properties are absolute.
    """

    model_config = SettingsConfigDict(
        env_prefix="MOCHI_",
        env_file=".env",
        env_nested_delimiter="__",
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
    )

    host: str = Field("127.0.0.1", description="Address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on (5099 in test mode)")
    workers: int = Field(1, ge=1, le=256, description="Number of web processes")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = Field(
        "INFO", description="Least severe level that is logged"
    )

    ollama_host: str = Field("http://localhost:11434", description="URL of the Ollama server")
    providers: dict[str, ProviderConfig] = Field(
        default_factory=dict,
        description="OpenAI-compatible providers: `MOCHI_PROVIDERS__<NAME>__BASE_URL`, `..._API_KEY_ENV`",
    )

    data_dir: Path = Field(Path(), description="Base directory of all data")
    sessions_dir: Path = Field(Path("chat_sessions"), description="Session files")
    tools_dir: Path = Field(Path("tools"), description="Tool modules")
    agents_dir: Path = Field(Path("agents"), description="Agents")
    agent_chats_dir: Path = Field(Path("agents/agent_chats"), description="Sessions of agents")
    system_prompts_dir: Path = Field(Path("system_prompts"), description="System prompt files")
    planning_prompt_path: Path = Field(
        Path("docs/agents/agent_prompt_planning.md"), description="Agents' planning prompt"
    )
    execution_prompt_path: Path = Field(
        Path("docs/agents/agent_prompt_execution.md"), description="Agents' execution prompt"
    )

    summarization_enabled: bool = Field(True, description="Summarise sessions in the background")
    summarization_interval_seconds: float = Field(
        3, ge=0, le=86_400, description="Least time between two summaries of a session"
    )
    summary_unsupported_models: List = Field(
        default=["gpt-oss:20b", "gpt-oss:120b"],
        description="Models that can't write structured summaries",
    )
    dynamic_context_window_enabled: bool = Field(
        True, description="Let the context window grow with the conversation"
    )
    worker: bool = Field(True, description="Keep the background worker running beside the server")

    max_tool_rounds: int = Field(25, ge=1, le=1000, description="Model calls in one turn")
    max_agent_iterations: int = Field(50, ge=1, le=1000, description="Rounds of one agent run")
    max_active_turns: int = Field(1000, ge=1, description="Turns that may run at once in a worker")
    turn_timeout_seconds: Seconds = Field(1800, description="Longest time a turn may take")
    upstream_timeout_seconds: Seconds = Field(300, description="Longest silence of a model")
    turn_retention_seconds: float = Field(
        600, ge=0, description="How long a finished turn can be re-attached to"
    )
    shutdown_grace_seconds: float = Field(
        5, ge=0, le=3600, description="Time that running turns get when the server stops"
    )
    tool_timeout_seconds: Seconds = Field(60, description="Longest time of one tool call")
    tool_confirmation_timeout_seconds: Seconds = Field(
        300, description="Time to answer a tool confirmation"
    )

    allowed_hosts: List = Field(
        default_factory=list, description="Host names beside loopback and IP addresses"
    )
    cors_origins: List = Field(default_factory=list, description="Origins of front ends elsewhere")
    max_body_bytes: int = Field(1_048_576, ge=1024, description="Largest request body in bytes")
    api_token: SecretStr | None = Field(
        None, description="Bearer token; one is made when the server listens beyond loopback"
    )
    insecure_no_auth: bool = Field(False, description="Listen beyond loopback without a token")

    test_mode: bool = Field(False, description="Answer from a scripted model, offline")
    test_words_per_second: float = Field(
        50, ge=0, description="Pace of the scripted model; 0 is unpaced"
    )

    @field_validator("allowed_hosts", "cors_origins", "summary_unsupported_models", mode="before")
    @classmethod
    def _split_list(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        text = value.strip()
        if text.startswith("["):
            try:
                return json.loads(text)
            except ValueError as error:
                raise ValueError("must be a JSON list or a comma-separated list") from error
        return [item.strip() for item in text.split(",") if item.strip()]

    @field_validator("log_level", mode="before")
    @classmethod
    def _upper_case(cls, value: Any) -> Any:
        return value.upper() if isinstance(value, str) else value

    @field_validator("ollama_host")
    @classmethod
    def _http_url(cls, value: str) -> str:
        url = value if "://" in value else f"http://{value}"
        try:
            parts = urlsplit(url)
            usable = parts.scheme in {"http", "https"} and bool(parts.hostname)
            _ = parts.port
        except ValueError:
            usable = False
        if not usable:
            raise ValueError("must be an http:// or https:// URL")
        return url.rstrip("/")

    @field_validator("api_token")
    @classmethod
    def _token_or_none(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None or not value.get_secret_value().strip():
            return None
        return value

    @property
    def resolved_data_dir(self) -> Path:
        """The base directory, absolute."""
        return self.data_dir.expanduser().resolve()

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
    def resolved_planning_prompt_path(self) -> Path:
        """The planning prompt's file, absolute."""
        return self._resolve(self.planning_prompt_path)

    @property
    def resolved_execution_prompt_path(self) -> Path:
        """The execution prompt's file, absolute."""
        return self._resolve(self.execution_prompt_path)

    @property
    def resolved_state_dir(self) -> Path:
        """Where the server keeps its own state (``.mochi``), absolute."""
        return self.resolved_data_dir / ".mochi"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return self.host in LOOPBACK_HOSTS or self.host.startswith("127.")

    def _resolve(self, path: Path) -> Path:
        return (self.resolved_data_dir / path.expanduser()).resolve()


def load_settings(**overrides: Any) -> MochiSettings:
    """Read the configuration; ``overrides`` (from flags) win over the environment.

    In test mode the port is 5099 unless one was given.

    Raises:
        ConfigurationError: A value can't be used; the message names the variable.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        settings = MochiSettings(**given)
    except ValidationError as error:
        raise ConfigurationError(_explain(error)) from error
    if settings.test_mode and "port" not in settings.model_fields_set:
        settings = settings.model_copy(update={"port": TEST_MODE_PORT})
    return settings


def _explain(error: ValidationError) -> str:
    lines = []
    for item in error.errors(include_url=False, include_input=False):
        variable = "MOCHI_" + "__".join(str(part) for part in item["loc"]).upper()
        message = item["msg"].removeprefix("Value error, ")
        lines.append(f"{variable}: {message[0].lower()}{message[1:]}")
    return "\n".join(lines)
