"""Declares the settings of turns, their context and their summaries."""

import base64
import binascii
from typing import Annotated, Literal
from urllib.parse import parse_qs, urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
)

from mochi_project.configuration.app_settings import AppSettings
from mochi_project.configuration.constants import SUMMARY_UNSUPPORTED_MODELS
from mochi_project.configuration.setting_types import HttpUrl, List, Seconds, split_list
from sessions_app.inbox import WhenBusy
from sessions_app.session import MODEL_NAME_LENGTH, ContextStrategy, OnCrash

NoticeEvent = Literal["approval.asked", "turn.done", "turn.failed"]
NoticeFormat = Literal["standard", "ntfy", "slack", "telegram"]


def _checked_loop_limit(value: int) -> int:
    if value != 0 and not 3 <= value <= 100:
        raise ValueError("must be 0, for no limit, or 3 to 100")
    return value


LoopLimit = Annotated[int, AfterValidator(_checked_loop_limit)]


class ChatSettings(AppSettings):
    """Holds the bounds of turns, and how conversations are made to fit."""

    summarization_enabled: bool = Field(True, description="Summarize sessions in the background")
    summarization_interval_seconds: float = Field(
        3, ge=0, le=86_400, description="Least time between two summaries of a session"
    )
    summary_unsupported_models: List = Field(
        default=list(SUMMARY_UNSUPPORTED_MODELS),
        description="Models that can't write structured summaries",
    )
    summary_model: str | None = Field(
        None,
        min_length=1,
        max_length=MODEL_NAME_LENGTH,
        description="Model that writes summaries and titles, unless the session names one; unset: "
        "the session's own",
    )
    dynamic_context_window_enabled: bool = Field(
        True, description="Let the context window grow with the conversation"
    )
    context_strategy: ContextStrategy = Field(
        "summarize_history", description="How a conversation that is too long is made to fit"
    )
    max_tool_rounds: int = Field(25, ge=1, le=1000, description="Model calls in one turn")
    tool_loop_limit: LoopLimit = Field(5, description="Equal results of a call; 0: any number")
    tool_tokens: int | None = Field(
        None,
        ge=0,
        description="Tokens of tools that are sent at once, beyond which models find them first; "
        "unset: a tenth of the limit, 2,000 to 20,000; 0: any number",
    )
    max_active_turns: int = Field(
        1300, ge=1, description="Turns that a web process may run at once"
    )
    max_turns_per_client: int = Field(
        0, ge=0, description="Turns that one owner, or address, may run in a web process; 0: any"
    )
    max_listeners: int = Field(
        1000, ge=1, description="Streams of `GET /events` that a web process may have at once"
    )
    turn_timeout_seconds: Seconds = Field(1800, description="Longest time a turn may take")
    on_crash: OnCrash = Field(
        "seal",
        description="What becomes of turns whose process dies: `seal` saves their rest, `continue` "
        "lets another process go on",
    )
    max_resumes: int = Field(
        2,
        ge=0,
        le=10,
        description="How often in a row a turn goes on after a death of its process without new "
        "output; then it ends",
    )
    when_busy: WhenBusy = Field(
        "refuse",
        description="What becomes of a message while a turn runs, unless its request says so: "
        "`refuse`, `queue`, `steer` or `interrupt`; in `/chat`, the AI SDK, AG-UI and chat "
        "completions, where the last two know no `steer` and refuse then",
    )
    turn_retention_seconds: float = Field(
        600, ge=0, description="How long a finished turn can be re-attached to"
    )
    tool_confirmation_timeout_seconds: Seconds = Field(
        300, description="Time to answer a tool confirmation"
    )
    webhook_url: HttpUrl | None = Field(
        None,
        repr=False,
        description="Address that is told of questions and turns",
    )
    webhook_events: Annotated[list[NoticeEvent], BeforeValidator(split_list)] = Field(
        default=["approval.asked"],
        description="What it is told of: `approval.asked`, `turn.done`, `turn.failed`",
    )
    webhook_format: NoticeFormat = Field(
        "standard", description="Format of what it gets: `standard`, `ntfy`, `slack`, `telegram`"
    )
    webhook_secret: SecretStr | None = Field(
        None,
        description="Key that signs what it gets (`standard`, as `whsec_...`), or the access token "
        "of `ntfy`",
    )

    @field_validator("webhook_format")
    @classmethod
    def _format_fits_its_address(cls, value: NoticeFormat, info: ValidationInfo) -> NoticeFormat:
        parts = urlsplit(info.data.get("webhook_url") or "")
        if parts.netloc and value == "ntfy" and not parts.path.strip("/"):
            raise ValueError("ntfy needs a topic in MOCHI_WEBHOOK_URL, as https://ntfy.sh/topic")
        if parts.netloc and value == "telegram" and "chat_id" not in parse_qs(parts.query):
            raise ValueError("telegram needs ?chat_id= in MOCHI_WEBHOOK_URL")
        return value

    @field_validator("webhook_secret")
    @classmethod
    def _standard_webhooks_are_signed(
        cls, value: SecretStr | None, info: ValidationInfo
    ) -> SecretStr | None:
        if info.data.get("webhook_url") is None or info.data.get("webhook_format") != "standard":
            return value
        key = value.get_secret_value() if value is not None else ""
        try:
            is_usable = len(base64.b64decode(key.removeprefix("whsec_"), validate=True)) >= 24
        except binascii.Error:
            is_usable = False
        if not is_usable or not key.startswith("whsec_"):
            raise ValueError(
                "must be set with MOCHI_WEBHOOK_URL to whsec_ and 24 bytes or more in base64 "
                '(`echo "whsec_$(openssl rand -base64 32)"` makes one), unless '
                "MOCHI_WEBHOOK_FORMAT is another one than standard"
            )
        return value
