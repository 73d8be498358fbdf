"""Holds the login to one server: its token, its renewal, and whether a person has to log in.

    no token ──a person logs in──> token ──it expires──> renewed ──refused──> no token

What is known is in a record that all processes share; here is only what this one does just now.
"""

import asyncio
import contextvars
import importlib
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from mochi_project.addresses import AddressPolicy, is_public_web
from mochi_project.principal import principal
from sessions_app.errors import StorageUnavailable
from sessions_app.shielding import to_the_end
from tools_app.errors import LoginNotOffered
from tools_app.mcp import http_errors
from tools_app.mcp.config import HttpSpec
from tools_app.mcp.login_records import (
    LoginRecord,
    LoginRecords,
    Notice,
    PendingLogin,
    Renewal,
    key_of,
)
from tools_app.mcp.oauth_spec import OAuthSpec, origin_of
from tools_app.mcp.remote import LoginRefused, RemoteError
from tools_app.schemas import McpLoginOut

if TYPE_CHECKING:
    from tools_app.mcp.oauth import OAuth

EARLY_SECONDS = 30.0
"""The time before its end at which a token is renewed."""
RENEWAL_SECONDS = 25.0
"""The time that a process has to renew one: two requests, and the write of the answer."""
MOST_STEP_UPS = 3
_LOOK_SECONDS = 0.1
_PAUSES = (0.2, 1.0, 3.0)


class LoginNotice(msgspec.Struct, frozen=True):
    """Holds what is told of changes; nothing by default."""

    note: Notice = lambda _: None


class LoginPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Holds what the logins of all servers have in common.

    Attributes:
        records: Where they are kept.
        addresses: Decides which addresses are fetched.
    """

    records: LoginRecords
    addresses: AddressPolicy = is_public_web


class ServerLogin:
    """The login to a server over HTTP. Belongs to one event loop.

    Args:
        name: Its name in ``mcp.json``.
        spec: Its entry there.
        policy: What all logins have in common.

    Attributes:
        name: Its name.
        origin: The only origin that the token is sent to.
        needed: Who has to log in, as a sentence, if a request of this process was refused for want
            of a login since it connected last.
        sent: The token that was sent last.
    """

    def __init__(self, name: str, spec: HttpSpec, policy: LoginPolicy) -> None:
        self.origin = origin_of(spec.url)
        self.needed: str | None = None
        self.sent: str | None = None
        self._key = key_of(name, self.origin)
        self.name = name
        self._spec = spec
        self._oauth = spec.oauth or OAuthSpec()
        self._policy = policy
        self._records = policy.records
        self._renewing: asyncio.Task[str | None] | None = None
        self._last = LoginRecord()

    @property
    def secrets(self) -> frozenset[str]:
        """Return what no error repeats."""
        return self._spec.secrets | ({self.sent} if self.sent else set())

    async def record(self) -> LoginRecord:
        """Return what is known."""
        self._last = await self._records.read(self._key)
        return self._last

    async def status(self) -> tuple[McpLoginOut | None, str | None]:
        """Return what people are told, and why the server can't be used without a login.

        There is nothing to tell of servers that never asked for one.
        """
        record = await self.record()
        if record == LoginRecord() and self._oauth == OAuthSpec():
            return None, None
        waiting = record.waiting(await self._records.now())
        challenge, granted = record.challenge or "", (record.tokens or {}).get("scope") or ""
        scopes = f"{granted} {' '.join(http_errors.scopes_of(challenge))} {self._oauth.scope or ''}"
        status = McpLoginOut(
            needed=record.challenge is not None and not self._oauth.by_itself,
            url=None if waiting is None else waiting.url,
            expires_at=None if waiting is None else waiting.expires,
            scopes=list(dict.fromkeys(scopes.split())),
        )
        if not status.needed or record.tokens is not None:
            return status, None
        sentence = http_errors.login_sentence(self.name, 401, challenge)
        failed = f" The last login failed: {record.fault}" if record.fault else ""
        return status, sentence + failed

    async def token(self) -> str | None:
        """Return the token for a request, renewed if it is about to expire; None without a login.

        Raises:
            RemoteError: It can't be renewed now.
        """
        record = await self.record()
        token = record.access_token
        if token is None or record.expires_at is None:
            return token
        if await self._records.now() < record.expires_at - EARLY_SECONDS:
            return token
        return await self._renewed(token, record.challenge or "")

    async def renewed(
        self, refused: str | None, challenge: str, *, lacks_scope: bool
    ) -> str | None:
        """Return another token than one that was refused; None if a person has to log in.

        Args:
            refused: The token.
            challenge: The ``WWW-Authenticate`` of the refusal.
            lacks_scope: Whether it may do too little: to refresh it gives it no more rights.

        Raises:
            RemoteError: It can't be renewed now.
        """
        if (refused is None or lacks_scope) and not self._oauth.by_itself:
            return None
        return await self._renewed(refused, challenge)

    async def note_refusal(self, token: str | None, challenge: str, *, lacks_scope: bool) -> None:
        """Record that a request was refused, for whoever logs in."""

        def refused(record: LoginRecord) -> LoginRecord:
            if record.access_token not in (token, None):
                return record  # somebody has logged in meanwhile
            tokens = record.tokens if lacks_scope else None
            if (tokens, challenge) == (record.tokens, record.challenge):
                return record
            return msgspec.structs.replace(
                record, server=self.name, tokens=tokens, challenge=challenge
            )

        after = await self._records.change(self._key, refused)
        if after.tokens is None and not self._oauth.by_itself:
            self.needed = http_errors.login_sentence(self.name, 401, challenge)

    async def note_success(self) -> None:
        """Record that a call went well, after which further scopes may be asked for again."""

        def succeeded(record: LoginRecord) -> LoginRecord:
            return msgspec.structs.replace(record, step_ups=0) if record.step_ups else record

        if self._last.step_ups:  # as it was read for the request: others cost no look
            await self._records.change(self._key, succeeded)

    async def begin(self, redirect_uri: str, scope: str) -> PendingLogin:
        """Begin a login, or return the one that was begun.

        Raises:
            LoginNotOffered: Nobody can log in there.
            RemoteError: It can't be begun now.
        """
        record, now = await self.record(), await self._records.now()
        if self._oauth.by_itself:
            raise LoginNotOffered(self.name, "It logs in by itself, with its 'oauth' in mcp.json.")
        waiting = record.waiting(now)
        if waiting is not None and not scope:
            return waiting
        if record.step_ups >= MOST_STEP_UPS and http_errors.lacks_scope(
            403, record.challenge or ""
        ):
            raise LoginNotOffered(
                self.name,
                f"It asked for more rights after each of the last {MOST_STEP_UPS} logins. Log out "
                f"to begin anew: mochi-server mcp logout {self.name}",
            )
        flows = await self._flows()
        pending = await flows.begin(record, redirect_uri=redirect_uri, scope=scope, now=now)
        pending = msgspec.structs.replace(pending, owner=principal().owner)

        def begun(current: LoginRecord) -> LoginRecord:
            if current.pending != record.pending and current.waiting(now):
                return current  # another one was faster
            return msgspec.structs.replace(current, server=self.name, pending=pending, fault=None)

        return (await self._records.change(self._key, begun)).pending or pending

    async def finish(self, pending: PendingLogin, code: str, issuer: str | None) -> None:
        """Exchange the code of a login for tokens, to the end even if nobody waits.

        Raises:
            RemoteError: There are none.
        """
        await to_the_end(asyncio.create_task(self._finish(pending, code, issuer)))

    async def fail(self, words: str) -> None:
        """Record why the last login failed."""

        def failed(record: LoginRecord) -> LoginRecord:
            if record == LoginRecord():
                return record  # somebody has logged out meanwhile
            return msgspec.structs.replace(record, fault=words)

        await self._records.change(self._key, failed)

    async def forget(self) -> None:
        """Forget the login, and have the authorization server forget it if it can."""
        record = (await self._records.delete_of(self.name)).get(self._key, LoginRecord())
        if record.client is not None and record.tokens is not None:
            await (await self._flows()).revoke(record.client, record.tokens)

    async def aclose(self) -> None:
        """Wait for a renewal: what it gets would be lost."""
        if self._renewing is not None:
            await asyncio.wait([self._renewing], timeout=RENEWAL_SECONDS)

    async def _flows(self) -> "OAuth":
        """Return what talks to authorization servers; the first one imports the SDK."""
        sdk = await asyncio.to_thread(importlib.import_module, "tools_app.mcp.oauth")
        flows: OAuth = sdk.OAuth(self._spec, self._policy.addresses)
        return flows

    async def _finish(self, pending: PendingLogin, code: str, issuer: str | None) -> None:
        flows = await self._flows()
        try:
            granted = await flows.finish(pending, code, issuer, await self._records.now())
        except RemoteError as error:
            await self.fail(error.message)
            raise

        def finished(record: LoginRecord) -> LoginRecord:
            return msgspec.structs.replace(
                record,
                server=self.name,
                **granted,
                challenge=None,
                fault=None,
                renewal=None,
                step_ups=record.step_ups + 1 if pending.is_step_up else 0,
            )

        await self._records.change(self._key, finished)

    async def _renewed(self, old: str | None, challenge: str) -> str | None:
        """Return a token other than ``old``; all callers of this process wait for one renewal."""
        if self._renewing is None or self._renewing.done():
            # In a context of its own, and not cancelled with a call: a new refresh token is sent
            # once, and the old one is worth nothing then.
            self._renewing = asyncio.create_task(
                self._renew(old, challenge),
                name=f"mcp-login-{self.name}",
                context=contextvars.Context(),
            )
        return await asyncio.shield(self._renewing)

    async def _renew(self, old: str | None, challenge: str) -> str | None:
        """Renew the token, unless another process does; None if a person has to log in."""
        holder = secrets.token_hex(8)
        while True:
            now = await self._records.now()

            def taken(record: LoginRecord, now: float = now) -> LoginRecord:
                renewal = record.renewal
                if record.access_token != old or (renewal and now < renewal.until):
                    return record
                mine = Renewal(holder=holder, until=now + RENEWAL_SECONDS)
                return msgspec.structs.replace(record, server=self.name, renewal=mine)

            record = await self._records.change(self._key, taken)
            if record.access_token != old:
                return record.access_token
            if record.renewal and record.renewal.holder == holder:
                break
            await asyncio.sleep(_LOOK_SECONDS)
        outcome: Mapping[str, Any] = {}
        try:
            flows = await self._flows()
            outcome = await flows.renew(record, challenge, await self._records.now())
        except LoginRefused as error:
            outcome = {"tokens": None, "fault": error.message}
            if self._oauth.by_itself:
                raise
        finally:
            after = await self._release(holder, outcome)
        return after.access_token

    async def _release(self, holder: str, outcome: Mapping[str, Any]) -> LoginRecord:
        """Store the outcome of a renewal, also if the store fails at first: it comes only once."""

        def released(current: LoginRecord) -> LoginRecord:
            if current.renewal is None or current.renewal.holder != holder:
                return current  # it took too long, or somebody has logged in or out
            return msgspec.structs.replace(current, renewal=None, **outcome)

        for pause in _PAUSES:
            try:
                return await self._records.change(self._key, released)
            except StorageUnavailable:
                await asyncio.sleep(pause)
        return await self._records.change(self._key, released)
