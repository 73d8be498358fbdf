"""Lets people log in to MCP servers: begins a login, and finishes it when they come back.

Each step may happen in another process, also after a restart (docs/decisions/0189).
"""

import asyncio
import re
import secrets
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

import msgspec

from mochi_project.principal import acting_for
from tools_app.errors import LoginNotOffered, ToolServerUnavailable
from tools_app.mcp.login_records import LoginRecord, LoginRecords, PendingLogin
from tools_app.mcp.redaction import redacted
from tools_app.mcp.remote import RemoteError
from tools_app.mcp.toolset import McpTools

CALLBACK = "/api/v1/mcp/callback"
_WAIT_SECONDS = 10.0
_LOOK_SECONDS = 0.3
_WORDS = 200
_STATE = re.compile(r"[A-Za-z0-9_-]{43}")
_LATE = "This login took too long. Begin it again."
_UNKNOWN = "This login is not known, or was used already. Begin it again."


class LoginFailed(Exception):
    """A person came back without success.

    Attributes:
        status: What it is in HTTP.
        message: Why, for the person; not escaped.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class McpLogins:
    """Begins and finishes logins.

    Args:
        tools: The servers.
        records: The records of the logins.
        public_url: The address at which browsers reach this server; None for this machine's.
        port: The port that it listens on, as configured.
    """

    def __init__(
        self, tools: McpTools, records: LoginRecords, public_url: str | None, port: int
    ) -> None:
        self._tools = tools
        self._records = records
        self._public_url = public_url
        self._port = port

    async def begin(self, name: str, scope: str = "", *, port: int | None = None) -> PendingLogin:
        """Begin a login, or return the one that was begun.

        Args:
            name: The server.
            scope: Further scopes to ask for, separated by spaces.
            port: The port that this server listens on, if it is known.

        Raises:
            ToolServerNotFound: There is no such server.
            LoginNotOffered: Nobody can log in there.
            ToolServerUnavailable: It can't be begun now.
        """
        server, login = await self._tools.login(name)
        try:
            if await login.record() == LoginRecord():  # only a refusal says how to log in
                if await server.wait_ready(within=_WAIT_SECONDS):
                    raise LoginNotOffered(name, "It asks for no login.")
                if login.needed is None:
                    raise ToolServerUnavailable(name, server.error or "It does not start.")
            base = self._public_url or f"http://127.0.0.1:{port or self._port}"
            return await login.begin(base + CALLBACK, scope)
        except RemoteError as error:
            raise ToolServerUnavailable(name, error.message) from error

    async def finish(self, answer: Mapping[str, str]) -> str:
        """Finish the login of a person who comes back; return the server's name.

        Args:
            answer: What the authorization server sends with them: ``state`` with ``code`` and
                ``iss``, or with ``error`` and ``error_description``.

        Raises:
            LoginFailed: There is no token.
            ToolServerNotFound, ToolServerUnavailable, LoginNotOffered: Its entry has changed.
        """
        key, record, pending = await self._pending(answer.get("state", ""))
        if await self._records.now() >= pending.expires_at:
            raise LoginFailed(410, _LATE)

        def used(current: LoginRecord) -> LoginRecord:
            if current.pending != pending:
                raise LoginFailed(400, _UNKNOWN)
            done = msgspec.structs.replace(pending, is_used=True)
            return msgspec.structs.replace(current, pending=done)

        await self._records.change(key, used)
        with acting_for(pending.owner):
            return await self._finish(record.server, pending, answer)

    async def _finish(self, name: str, pending: PendingLogin, answer: Mapping[str, str]) -> str:
        server, login = await self._tools.login(name)
        if "error" in answer or "code" not in answer:
            reasons = filter(None, map(answer.get, ("error", "error_description")))
            words = redacted(": ".join(reasons) or "There is no code.", (), limit=_WORDS)
            await login.fail(words)
            raise LoginFailed(400, f"The login was refused: {words}")
        try:
            await login.finish(pending, answer["code"], answer.get("iss"))
        except RemoteError as error:
            raise LoginFailed(400, error.message) from error
        if server.state == "needs_login":
            await server.request_start()
        return name

    async def wait(self, name: str, pending: PendingLogin) -> None:
        """Wait until a login is finished, in whatever process.

        Raises:
            LoginFailed: It failed, or nobody came back in time.
        """
        _, login = await self._tools.login(name)
        while True:
            record = await login.record()
            if record.pending is None or record.pending.state != pending.state:
                raise LoginFailed(400, _UNKNOWN)
            if record.fault is not None:
                raise LoginFailed(400, record.fault)
            if record.pending.is_used and record.tokens is not None and not record.challenge:
                return
            if await self._records.now() >= pending.expires_at:
                raise LoginFailed(410, _LATE)
            await asyncio.sleep(_LOOK_SECONDS)

    async def forget(self, name: str) -> str | None:
        """Forget a login; return why the authorization server could not be told, if so.

        Raises:
            ToolServerNotFound, ToolServerUnavailable, LoginNotOffered: There is no login.
        """
        server, login = await self._tools.login(name)
        try:
            await login.forget()
        except RemoteError as error:
            return error.message
        finally:
            if server.state != "stopped":
                await server.restart()
        return None

    async def _pending(self, state: str) -> tuple[str, LoginRecord, PendingLogin]:
        if _STATE.fullmatch(state):
            for key, record in (await self._records.all()).items():
                pending = record.pending
                if pending and secrets.compare_digest(pending.state, state):
                    if pending.is_used:
                        break
                    return key, record, pending
        raise LoginFailed(400, _UNKNOWN)


def come_back_of(address: str) -> Mapping[str, str]:
    """Return the parameters of the address that a browser was sent back to."""
    return dict(parse_qsl(urlsplit(address.strip()).query))
