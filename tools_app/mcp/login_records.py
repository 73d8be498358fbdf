"""Keeps the logins to MCP servers: one record for each, which all processes change.

A record is replaced as a whole, and only as it was read, so it needs no lock: who renews a token,
and whether a person's login was used, are fields of it (docs/decisions/0189).
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from mochi_project.principal import DEFAULT_OWNER
from sessions_app.decoding import NO_JSON, decode_as
from sessions_app.errors import StorageUnavailable
from sessions_app.store.atomic import UnreadableFileError
from sessions_app.store.records import Records

_TRIES = 50

Notice = Callable[[str], None]
"""Is told the name of a server whose login has changed. Blocks."""
Document = Mapping[str, Any]
"""A message of an authorization server, as the SDK writes it."""


class TokenRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request that exchanges a code for tokens, without the code."""

    url: str
    headers: Mapping[str, str]
    form: Mapping[str, str]


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """Holds what is known of an authorization server, and as whom it knows this server."""

    information: Document
    metadata: Document | None = None
    resource: Document | None = None


class PendingLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A login that a person has begun.

    Attributes:
        state: The secret of it, which comes back with the code.
        url: The address that the person opens.
        expires_at: When it is too late (Unix time).
        request: The request for the tokens.
        client: For whom they are.
        scope: The scopes that are asked for.
        is_step_up: Whether it is for scopes that an earlier login lacks.
        is_used: Whether the person has come back.
        owner: For whom it was begun: a server may be for some owners alone.
    """

    state: str
    url: str
    expires_at: float
    request: TokenRequest
    client: Client
    scope: str | None = None
    is_step_up: bool = False
    is_used: bool = False
    owner: str = DEFAULT_OWNER

    @property
    def expires(self) -> str:
        """Return when it is too late, in ISO 8601."""
        return datetime.fromtimestamp(self.expires_at, UTC).isoformat(timespec="seconds")


class Renewal(msgspec.Struct, frozen=True, kw_only=True):
    """The right to renew the token, of one process for a while."""

    holder: str
    until: float


class LoginRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The login to one server.

    Attributes:
        server: Its name.
        client: As of the last login.
        tokens: The tokens; None before a login, and when they were refused.
        expires_at: When the access token expires (Unix time); None if that is unknown.
        challenge: The ``WWW-Authenticate`` of the last refusal; None since the last login.
        step_ups: How many logins in a row were for more scopes.
        renewal: Who renews the token.
        pending: The last login that a person began.
        fault: Why it failed.
    """

    server: str = ""
    client: Client | None = None
    tokens: Document | None = None
    expires_at: float | None = None
    challenge: str | None = None
    step_ups: int = 0
    renewal: Renewal | None = None
    pending: PendingLogin | None = None
    fault: str | None = None

    @property
    def access_token(self) -> str | None:
        """Return the token that requests are sent with."""
        return None if self.tokens is None else self.tokens["access_token"]

    @property
    def shown(self) -> tuple[object, ...]:
        """Return what people see of the login, to compare it."""
        return self.tokens is None, self.challenge, self.fault, self.pending and self.pending.state

    def waiting(self, now: float) -> PendingLogin | None:
        """Return the login that a person can still finish."""
        pending = self.pending
        return pending if pending and not pending.is_used and now < pending.expires_at else None


class LoginRecords:
    """Stores the records of logins.

    Args:
        records: The store.
        clock: Returns the time that all processes agree on (Unix time). Blocks.
        notice: Is told of changes that people see.
    """

    def __init__(
        self, records: Records, clock: Callable[[], float], notice: Notice = lambda _: None
    ) -> None:
        self._records = records
        self._clock = clock
        self._notice = notice

    async def now(self) -> float:
        """Return the time that all processes agree on."""
        return await asyncio.to_thread(self._clock)

    async def read(self, key: str) -> LoginRecord:
        """Return a record; an empty one if there is none."""
        return await asyncio.to_thread(lambda: _decoded(self._data(key)))

    async def change(self, key: str, step: Callable[[LoginRecord], LoginRecord]) -> LoginRecord:
        """Replace a record by what ``step`` makes of it; called again if another was faster.

        Args:
            key: The record.
            step: Returns the new record, or the same to change nothing; gets an empty one if there
                is none.

        Raises:
            StorageError: It can't be stored.
        """
        return await asyncio.to_thread(self._change, key, step)

    async def all(self) -> Mapping[str, LoginRecord]:
        """Return all records by their keys."""
        read = await asyncio.to_thread(self._records.read_all, lambda name: name.endswith(".json"))
        return {
            key: _decoded(data) for key, data in read.items() if not isinstance(data, Exception)
        }

    async def delete_of(self, server: str) -> Mapping[str, LoginRecord]:
        """Delete the records of a server, also those of its earlier origins; return them."""
        records = {key: each for key, each in (await self.all()).items() if each.server == server}
        for key in records:
            await asyncio.to_thread(self._records.delete, key)
        await asyncio.to_thread(self._notice, server)
        return records

    def _data(self, key: str) -> bytes | None:
        try:
            return self._records.read(key)
        except UnreadableFileError as error:
            raise StorageUnavailable(f"A login can't be read: {error.reason}.") from error

    def _change(self, key: str, step: Callable[[LoginRecord], LoginRecord]) -> LoginRecord:
        for _ in range(_TRIES):
            data = self._data(key)
            before = _decoded(data)
            after = step(before)
            if after is before:
                return after
            new = msgspec.json.encode(after)
            if (
                self._records.put(key, new, exists=False)
                if data is None
                else self._records.swap(key, data, new)
            ):
                if after.shown != before.shown:
                    self._notice(after.server)
                return after
        raise StorageUnavailable("A login is being changed all the time. Try again.")


def key_of(name: str, origin: str) -> str:
    """Return the key of the login to a server at an origin, so that another one has none."""
    return hashlib.sha256(f"{name}\n{origin}".encode()).hexdigest() + ".json"


def _decoded(data: bytes | None) -> LoginRecord:
    """Return the record; an empty one if it can't be understood, which a login replaces."""
    try:
        return LoginRecord() if data is None else decode_as(data, LoginRecord)
    except NO_JSON:
        return LoginRecord()
