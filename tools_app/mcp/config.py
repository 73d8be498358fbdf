"""Reads and validates ``mcp.json``, the configuration of MCP servers.

The format that most MCP clients share::

    {"mcpServers": {
        "time": {"command": "uvx", "args": ["mcp-server-time"], "env": {"KEY": "${KEY}"}},
        "docs": {"url": "https://docs.example/mcp", "headers": {"Authorization": "Bearer ${T}"}},
        "shop": {"url": "https://shop.example/mcp", "oauth": {"scope": "read"}}
    }}

Unknown keys are ignored. A broken entry disables that server; a broken file leaves what was read
before.
"""

import asyncio
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

import msgspec

from mochi_project.principal import DEFAULT_OWNER
from sessions_app.decoding import decode_as
from sessions_app.store.atomic import UnreadableFileError, read_regular
from tools_app.mcp.oauth_spec import OAuthSpec

MAX_FILE_BYTES = 1 << 20
NAME_PATTERN = r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62}[A-Za-z0-9-])?"
SEPARATOR = "__"
"""Separates a server's name from a tool's; a server's name can't contain it or end in ``_``."""

_NAME = re.compile(NAME_PATTERN)
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OWN_SECRETS = frozenset(
    {"MOCHI_API_TOKEN", "MOCHI_SECRET_KEY", "MOCHI_JOURNAL_URL", "MOCHI_SESSIONS_URL"}
)
_SHORTEST_SECRET = 6

Transport = Literal["stdio", "http", ""]


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Holds what entries of both kinds may say.

    Attributes:
        disabled: Whether it must not be used.
        trusted: Whether its annotations of tools (read-only, destructive) are believed.
        instructions: Whether models are told what it says of its tools.
        resources: Whether models may list its resources, and read all of these.
        owners: The owners of data who may use it; None for all.
    """

    disabled: bool = False
    trusted: bool = False
    instructions: bool = True
    resources: bool = False
    owners: tuple[str, ...] | None = None


class StdioSpec(ServerOptions, frozen=True, kw_only=True):
    """A server that is a local program, connected through stdin and stdout.

    Attributes:
        command: The program, found on the server's PATH.
        args: Its arguments.
        env: Variables in addition to a few harmless ones, with ``${VAR}`` expanded.
        cwd: Its working directory.
    """

    command: str
    cwd: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    transport: ClassVar[Transport] = "stdio"

    @property
    def secrets(self) -> frozenset[str]:
        """Return the values that must not appear in logs and messages."""
        return _secrets(self.env.values())

    def __repr__(self) -> str:
        """Return a text without secrets, which arguments and variables may hold."""
        return f"StdioSpec(command={self.command!r})"


class HttpSpec(ServerOptions, frozen=True, kw_only=True):
    """A remote server, connected through MCP's "Streamable HTTP".

    Attributes:
        url: Its address, http or https.
        headers: Headers of each request, with ``${VAR}`` expanded.
        oauth: How to log in; None with an ``Authorization`` header, which is sent instead.
    """

    url: str
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    oauth: OAuthSpec | None = None
    transport: ClassVar[Transport] = "http"

    @property
    def secrets(self) -> frozenset[str]:
        """Return the values that must not appear in logs and messages."""
        parts = urlsplit(self.url)
        tokens = [word for value in self.headers.values() for word in value.split()]
        user = parts.netloc.rpartition("@")[0]
        secret = (self.oauth and self.oauth.client_secret) or ""
        values = [*self.headers.values(), *tokens, parts.query, user, *user.split(":"), secret]
        return _secrets(values)

    def __repr__(self) -> str:
        """Return a text without secrets, which URL and headers may hold."""
        return f"HttpSpec(host={urlsplit(self.url).hostname!r})"


class BrokenSpec(msgspec.Struct, frozen=True, kw_only=True):
    """An unusable entry, with the reason, which only the operator sees."""

    error: str
    transport: Transport = ""
    owners: ClassVar[tuple[str, ...]] = (DEFAULT_OWNER,)


Spec = StdioSpec | HttpSpec | BrokenSpec


class McpConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The servers by name, and the fault of the file as a whole, if any."""

    servers: Mapping[str, Spec] = msgspec.field(default_factory=dict)
    error: str | None = None


class _File(msgspec.Struct):
    mcpServers: dict[str, msgspec.Raw]  # noqa: N815 - as the file spells it


class _Entry(ServerOptions, frozen=True, kw_only=True):
    command: str | None = None
    args: list[str] = []
    env: dict[str, str | int | float | bool] = {}
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    oauth: OAuthSpec | None = None
    type: str | None = None


class _EntryError(ValueError):
    """The fault of an entry, as a sentence without any of its values."""


class ConfigFile:
    """Follows the file.

    Args:
        path: The file; it need not be there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reading = asyncio.Lock()
        self._config = McpConfig()

    async def current(self) -> McpConfig:
        """Return the configuration, the same one until it changes.

        For a broken file it is the last good one, with the error.
        """
        async with self._reading:
            read = await asyncio.to_thread(read_config, self._path)
            if read.error is not None:
                read = McpConfig(servers=self._config.servers, error=read.error)
            if read != self._config:
                self._config = read
            return self._config

    async def unused(self, reason: str) -> McpConfig:
        """Return a configuration without servers, for a file that must not be read."""
        there = await asyncio.to_thread(os.path.lexists, self._path)
        return McpConfig(error=reason if there else None)


def read_config(path: Path) -> McpConfig:
    """Read the file; a missing one has no servers. Blocks."""
    try:
        data = read_regular(path, limit=MAX_FILE_BYTES)
    except FileNotFoundError:
        return McpConfig()
    except UnreadableFileError as error:
        return McpConfig(error=f"{path.name} can't be read: {error.reason}.")
    except OSError as error:
        return McpConfig(error=f"{path.name} can't be read: {error.strerror}.")
    return parse_config(data, directory=path.parent, environment=os.environ)


def read_targets(path: Path) -> Mapping[str, str]:
    """Return the command line or URL of each entry, unusable ones included. Blocks.

    Raises:
        FileNotFoundError: There is no file.
        UnreadableFileError: It can't be read.
        ValueError: It can't be decoded.
    """
    decoded = _decoded(read_regular(path, limit=MAX_FILE_BYTES))
    return {name: _target(raw) for name, raw in decoded.mcpServers.items()}


def _target(raw: msgspec.Raw) -> str:
    try:
        entry: Any = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    if not isinstance(entry, dict):
        return ""
    args = entry.get("args")
    words = [entry.get("command"), *(args if isinstance(args, list) else ()), entry.get("url")]
    return " ".join(str(word) for word in words if word is not None)


def parse_config(data: bytes, *, directory: Path, environment: Mapping[str, str]) -> McpConfig:
    """Decode the file's content.

    Args:
        data: The content.
        directory: The directory of the file: programs start there, and ``cwd`` is relative to it.
        environment: The values of ``${VAR}`` in ``env`` and ``headers``.
    """
    try:
        decoded = _decoded(data)
    except ValueError as error:
        return McpConfig(error=f"mcp.json can't be understood: {error}.")
    servers: dict[str, Spec] = {}
    for name, raw in decoded.mcpServers.items():
        transport: Transport = ""
        try:
            entry = _decode(name, raw)
            transport = "stdio" if entry.command is not None else "http"
            servers[name] = _checked(entry, directory, environment)
        except _EntryError as error:
            servers[name] = BrokenSpec(error=str(error), transport=transport)
    return McpConfig(servers=servers)


def _decoded(data: bytes) -> _File:
    try:
        return decode_as(data.removeprefix(b"\xef\xbb\xbf"), _File)
    except RecursionError as error:
        raise ValueError(str(error)) from error


def _decode(name: str, raw: msgspec.Raw) -> _Entry:
    if _NAME.fullmatch(name) is None or SEPARATOR in name:
        raise _EntryError(
            "A server's name is 1 to 64 ASCII letters, digits, '_' and '-', starts with a letter "
            "or digit, does not end in '_' and has no '__' in it."
        )
    try:
        entry = decode_as(raw, _Entry)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _EntryError(f"The entry can't be understood: {error}.") from error
    if (entry.command is None) == (entry.url is None):
        raise _EntryError("The entry needs either a 'command' or a 'url'.")
    if entry.type == "sse":
        raise _EntryError("The old SSE transport is not supported; most servers have /mcp too.")
    return entry


def _checked(entry: _Entry, directory: Path, environment: Mapping[str, str]) -> Spec:
    options = {name: getattr(entry, name) for name in ServerOptions.__struct_fields__}
    if entry.command is not None:
        env = {name: _text(value) for name, value in entry.env.items()}
        _refuse_odd_variables(env)
        words = [entry.command, *entry.args]
        if not entry.command.strip() or any("\0" in word for word in words):
            raise _EntryError("The 'command' is empty, or an argument holds a NUL character.")
        return StdioSpec(
            command=entry.command,
            args=tuple(entry.args),
            env=_expanded(env, environment),
            cwd=str(directory.absolute() / (entry.cwd or "")),
            **options,
        )
    url = entry.url or ""
    _refuse_odd_url(url)
    headers = _expanded(entry.headers, environment)
    for name, value in headers.items():
        if _HEADER_NAME.fullmatch(name) is None or not value.isprintable() or not value.isascii():
            raise _EntryError(f"The header {name[:100]!r} can't be sent.")
    return HttpSpec(
        url=url,
        headers=headers,
        oauth=_login(entry, headers, environment),
        **options,
    )


def _login(
    entry: _Entry, headers: Mapping[str, str], environment: Mapping[str, str]
) -> OAuthSpec | None:
    """Return how to log in; None if a header, or a user in the address, says who asks."""
    has_user = "@" in urlsplit(entry.url or "").netloc
    if has_user or any(name.lower() == "authorization" for name in headers):
        return None
    oauth = entry.oauth or OAuthSpec()
    if (fault := oauth.fault()) is not None:
        raise _EntryError(fault)
    texts = {name: value for name, value in msgspec.structs.asdict(oauth).items() if value}
    return msgspec.structs.replace(oauth, **_expanded(texts, environment))


def _text(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _refuse_odd_variables(env: Mapping[str, str]) -> None:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            raise _EntryError("A name in 'env' is empty or has a '=', or something holds a NUL.")
    for name in sorted(_OWN_SECRETS & env.keys()):
        raise _EntryError(f"{name} is this server's own and is not given to others.")


def _refuse_odd_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and parts.hostname and (parts.port or True)
    except ValueError:
        usable = False
    if not usable or not url.isprintable() or " " in url:
        raise _EntryError("The 'url' is not an http:// or https:// address.")


def _expanded(values: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    def replace(match: re.Match[str]) -> str:
        variable = match[1]
        if variable in _OWN_SECRETS:
            raise _EntryError(f"{variable} is this server's own and is not given to others.")
        if variable not in environment:
            raise _EntryError(f"The variable {variable} is not set in the environment.")
        return environment[variable]

    return {name: _VARIABLE.sub(replace, value) for name, value in values.items()}


def _secrets(values: Iterable[str]) -> frozenset[str]:
    return frozenset(value for value in values if len(value) >= _SHORTEST_SECRET)
