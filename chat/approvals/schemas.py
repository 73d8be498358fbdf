"""Declares the bodies of the approvals' routes."""

from typing import Annotated, Any, Literal, Self

import msgspec
from ninja import Schema
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, JsonValue, StrictBool

from chat.approvals.confirmation import Confirmation, Kind
from chat.stream.events import AskedBecause
from sessions_app.bounds import MOST_ITEMS
from sessions_app.http.request_schemas import Globs, in_one_sentence


class ConfirmationOut(Schema):
    """A call that waits until a person approves or denies it, or a question of its server."""

    model_config = ConfigDict(serialize_by_alias=True)

    confirmation_id: str
    kind: Kind = Field(
        "call",
        description="`call`: may it run? The server of a running call asks for values (`input`), "
        "or that a person opens an address (`url`); then `arguments` are empty.",
    )
    tool_name: str
    arguments: dict[str, Any]
    call_index: int
    tool_call_id: str
    message_id: str = Field(description="The assistant's message that asks for the call.")
    agent_name: str | None = Field(None, description="The agent that asks, if it is one.")
    reason: AskedBecause | None = Field(
        None, description="Why it is asked whatever the policies say, if so."
    )
    created_at: str
    expires_at: str = Field(description="When no answer becomes a no.")
    outlasts_turn: bool = Field(
        False,
        description="Whether its turn may end before it does: then the last answer starts the next "
        "turn by itself, and no request has to.",
    )
    server: str | None = Field(None, description="The MCP server that asks.")
    message: str | None = Field(None, description="What it says. Nobody has checked that.")
    form_schema: dict[str, Any] | None = Field(
        None,
        validation_alias=AliasChoices("form_schema", "schema"),
        serialization_alias="schema",
        description="The flat JSON schema of the values that it asks for.",
    )
    url: str | None = Field(None, description="The address; show it whole, and don't fetch it.")
    secret_names: list[str] = Field(
        [], description="Values whose names look like secrets. Warn of them: don't give them."
    )

    @classmethod
    def of(cls, confirmation: Confirmation) -> Self:
        """Return a question as clients get it."""
        fields = msgspec.structs.asdict(confirmation)
        fields |= {
            "secret_names": confirmation.secret_names,
            "outlasts_turn": confirmation.request is not None,
        }
        return cls.model_validate(fields)


CONFIRMATION: dict[str, JsonValue] = {
    "confirmation_id": "conf_6f1ed002ab5595859014ebf0951522d9",
    "tool_name": "delete_file",
    "arguments": {"path": "/tmp/test.txt"},  # noqa: S108 - the specification's example
    "call_index": 0,
    "tool_call_id": "call_1",
    "message_id": "f1e2d3c4b5",
    "created_at": "2026-01-15T10:35:00.000000+00:00",
    "expires_at": "2026-01-15T10:40:00.000000+00:00",
}


class ConfirmationsOut(Schema):
    """The calls of a session that wait for an approval, oldest first."""

    model_config = ConfigDict(json_schema_extra={"example": {"confirmations": [CONFIRMATION]}})

    confirmations: list[ConfirmationOut]


class SessionScopeIn(BaseModel, extra="forbid"):
    """Further calls of the tool in the session that fit the globs."""

    scope: Literal["session"]
    arguments: Globs


class ConfirmToolIn(BaseModel):
    """The answer to a call that waits for approval."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {"confirmation_id": CONFIRMATION["confirmation_id"], "approved": True}
        },
    )

    confirmation_id: str = Field(
        max_length=100, json_schema_extra={"pattern": "^conf_[0-9a-f]{32}$"}
    )
    approved: StrictBool = Field(description="true or false; nothing else counts as an approval.")
    arguments: dict[str, Any] | None = Field(
        None,
        max_length=MOST_ITEMS,
        description="What the tool runs with instead of the model's arguments.",
    )
    content: dict[str, Any] | None = Field(
        None,
        max_length=MOST_ITEMS,
        description="The values that a server asked for (`input`): for its tool alone.",
    )
    remember: Annotated[
        Literal["once", "session"] | SessionScopeIn | None,
        in_one_sentence("must be once, session or a session scope"),
    ] = Field(
        "once",
        description="Which calls of the tool an approval is for: this one, or further ones of the "
        "session, too.",
    )


class ApprovalDecisionOut(Schema):
    """A call was approved or denied."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "confirmation_id": CONFIRMATION["confirmation_id"],
                "approved": True,
                "tool_name": "delete_file",
                "arguments": {"path": "/tmp/test.txt"},  # noqa: S108 - as above
                "decided_at": "2026-01-15T10:35:07.000000+00:00",
            }
        }
    )

    confirmation_id: str
    approved: bool
    tool_name: str
    arguments: dict[str, Any]
    decided_at: str
