"""Declares the bodies of the ``/keys`` routes."""

from datetime import UTC, datetime
from typing import Annotated, Any, Self

from ninja import Schema
from pydantic import AwareDatetime, BeforeValidator, ConfigDict, Field

from mochi_project.keys.key import MOST_CHARACTERS, Key
from mochi_project.principal import OWNER_PATTERN, Scope

_ANNAS: dict[str, Any] = {
    "id": "k3f9a2b1c",
    "name": "anna's phone",
    "owner": "anna",
    "scopes": ["read", "chat", "write", "approve"],
    "models": ["*"],
    "created_at": "2026-11-28T18:00:00Z",
    "expires_at": None,
    "revoked_at": None,
    "ended": False,
}
_TOKEN = "mochi_k3f9a2b1c_q9Zt0X1v2yB3nM4kL5jH6gF7dS8aP9oI0uY1tR2eW3q"  # noqa: S105 - an example

Pattern = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]


def _instant(value: Any) -> datetime:
    """Return the time of a text in ISO 8601; pydantic would take numbers, too."""
    if not isinstance(value, str):
        raise ValueError("must be a time, as 2026-11-28T18:00:00Z")  # noqa: TRY004 - of pydantic
    return datetime.fromisoformat(value)


class KeyIn(Schema):
    """A key to make."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"owner": "anna", "name": "anna's phone"}}
    )

    owner: str = Field(pattern=f"^{OWNER_PATTERN}$", description="Whose data it reads and writes")
    name: str | None = Field(None, max_length=MOST_CHARACTERS, description="What people call it")
    scopes: list[Scope] | None = Field(
        None,
        min_length=1,
        max_length=10,
        description="What it may be used for; `read`, `chat`, `write` and `approve` unless given",
    )
    models: list[Pattern] | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="Models that it may be used with, `*` for any text; all of them unless given",
    )
    expires_at: Annotated[AwareDatetime, BeforeValidator(_instant)] | None = Field(
        None, description="When it ends; null for never"
    )


class KeyOut(Schema):
    """A key, without its token."""

    model_config = ConfigDict(json_schema_extra={"example": _ANNAS})

    id: str = Field(description="The name of the key, which its token begins with")
    name: str
    owner: str
    scopes: list[Scope]
    models: list[str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    ended: bool = Field(description="Whether it was revoked, or has expired")

    @classmethod
    def of(cls, key: Key, **more: Any) -> Self:
        """Return a key as it is shown."""
        shown = {name: getattr(key, name) for name in _ANNAS if name != "ended"}
        return cls.model_validate({**shown, "ended": key.has_ended(datetime.now(UTC)), **more})


class KeyListOut(Schema):
    """The keys, also those that have ended."""

    model_config = ConfigDict(json_schema_extra={"example": {"keys": [_ANNAS]}})

    keys: list[KeyOut]


class KeyTokenOut(KeyOut):
    """A key with its token, which is shown this once."""

    model_config = ConfigDict(json_schema_extra={"example": {**_ANNAS, "token": _TOKEN}})

    token: str = Field(description="What to send as bearer token; it is kept nowhere")
