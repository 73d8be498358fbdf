"""Makes questions about calls. Pure."""

import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Required, TypedDict, Unpack

import msgspec

from chat.approvals.confirmation import Confirmation, Kind, Retry, expiry, hash_call, written
from chat.stream.events import AskedBecause
from sessions_app.messages import ToolCall


class Lasting(TypedDict, total=False):
    """The time for which a question is open, by the names of the fields of ``Confirmation``."""

    timeout_seconds: float | None
    request: Mapping[str, Any] | None


class About(Lasting, total=False):
    """The rest of a question, by the names of the fields of ``Confirmation``."""

    message_id: Required[str]
    call_index: Required[int]
    turn_id: Required[str]
    agent_name: str | None
    reason: AskedBecause | None
    tool_digest: str | None
    parameters: Mapping[str, Any] | None
    call_ids: tuple[str, ...]
    kind: Kind
    server: str | None
    message: str | None
    schema: Mapping[str, Any] | None
    url: str | None
    retry: Retry | None


def new_question(
    session_id: str, call: ToolCall, now: datetime, seconds: float, **about: Unpack[About]
) -> Confirmation:
    """Return a question about a call, which is open for some time.

    Raises:
        ValidationFailed: The call's arguments can't be written as JSON.
    """
    seconds = about.get("timeout_seconds") or seconds
    question = Confirmation(
        confirmation_id=f"conf_{secrets.token_hex(16)}",
        session_id=session_id,
        tool_call_id=call.id,
        tool_name=call.name,
        arguments=call.arguments,
        arguments_hash=hash_call(call.name, call.arguments),
        created_at=written(now),
        expires_at=expiry(now, seconds),
        **about,
    )
    return msgspec.structs.replace(question, version=question.version_of_kind)
