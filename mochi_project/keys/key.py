"""Defines keys: their tokens, of which only a hash is kept, and their scopes."""

import hashlib
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import msgspec

from mochi_project.principal import DEFAULT_OWNER, OWNER_PATTERN, Principal, Scope, principal
from sessions_app.decoding import convert_to
from sessions_app.errors import MochiError

MOST_CHARACTERS = 200
USUAL_SCOPES: tuple[Scope, ...] = ("read", "chat", "write", "approve")
"""The scopes of a person who runs nothing of the server."""

Time = Annotated[datetime, msgspec.Meta(tz=True)]
Pattern = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_CHARACTERS)]


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A key: an entry of ``keys.json``.

    Attributes:
        id: The name of the key, which its token begins with.
        name: What people call it.
        hash: The SHA-256 of its token.
        owner: The owner whom who has it acts for.
        scopes: What it may be used for.
        models: Patterns of the models that it may be used with, ``*`` standing for any text.
        created_at: When it was made.
        expires_at: When it ends by itself; None for never.
        revoked_at: When it was revoked; None if it was not.
        keeps_turns: Whether what it started goes on after it was revoked.
    """

    id: Annotated[str, msgspec.Meta(pattern=r"^k[0-9a-f]{8}\Z")]
    name: Annotated[str, msgspec.Meta(max_length=MOST_CHARACTERS)] = ""
    hash: Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]
    owner: Annotated[str, msgspec.Meta(pattern=rf"^{OWNER_PATTERN}\Z")]
    scopes: Annotated[tuple[Scope, ...], msgspec.Meta(min_length=1)]
    models: Annotated[tuple[Pattern, ...], msgspec.Meta(min_length=1)] = ("*",)
    created_at: Time
    expires_at: Time | None = None
    revoked_at: Time | None = None
    keeps_turns: bool = False

    def has_ended(self, now: datetime) -> bool:
        """Return whether it was revoked, or has expired."""
        return self.revoked_at is not None or (
            self.expires_at is not None and self.expires_at <= now
        )

    @property
    def principal(self) -> Principal:
        """The principal of who has it."""
        return Principal(self.owner, frozenset(self.scopes), self.id, self.models, self.hash)


class KeyFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``keys.json``."""

    version: Annotated[int, msgspec.Meta(ge=1, le=1)] = 1
    keys: tuple[Key, ...] = ()


def new_key(
    *,
    owner: str = DEFAULT_OWNER,
    name: str = "",
    scopes: Sequence[Scope] = USUAL_SCOPES,
    models: Sequence[str] = ("*",),
    expires_at: datetime | None = None,
) -> tuple[Key, str]:
    """Return a new key with its token, which is not kept.

    Raises:
        msgspec.ValidationError: A value is not one of a key.
    """
    key_id = f"k{secrets.token_hex(4)}"
    token = new_token(key_id)
    values = {
        "id": key_id,
        "name": name,
        "hash": hash_of(token.encode()),
        "owner": owner,
        "scopes": scopes,
        "models": models,
        "created_at": utc_now(),
        "expires_at": expires_at,
    }
    return convert_to(values, Key), token


def new_token(key_id: str) -> str:
    """Return a new token of a key: ``mochi_<id>_`` and 43 characters."""
    return f"mochi_{key_id}_{secrets.token_urlsafe(32)}"


def hash_of(token: bytes) -> str:
    """Return what is kept of a token."""
    return f"sha256:{hashlib.sha256(token).hexdigest()}"


def utc_now() -> datetime:
    """Return the time, in whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)


class ScopeMissing(MochiError):
    """The client may do other things, but not this."""

    code = "FORBIDDEN"

    def __init__(self, scope: str) -> None:
        super().__init__(
            f"This needs the scope '{scope}', which the key of this request does not have: "
            "who runs the server can make one that has it (mochi-server keys add --scopes).",
            scope=scope,
        )


def require_scope(scope: Scope) -> None:
    """Refuse what the principal has no scope for.

    Raises:
        ScopeMissing: It has not.
    """
    if scope not in principal().scopes:
        raise ScopeMissing(scope)
