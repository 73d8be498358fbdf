"""Parses URLs of Redis or Valkey servers, without the client library."""

import re
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

import msgspec

PORT = 6379
SENTINEL_PORT = 26379
SCHEMES = ("redis", "rediss", "valkey", "valkeys", "redis+sentinel", "valkey+sentinel", "unix")
_TLS = ("rediss", "valkeys")
_FORM = (
    "It has the form redis://[user:password@]host[:port][/database], rediss:// with TLS, "
    "valkey://, unix:///path/of/socket, or redis+sentinel://host[:port],host[:port]/name[/database]"
)


class RedisUrl(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a Redis server, or of the Sentinels that know it.

    Attributes:
        hosts: Hosts and ports of the server or of the Sentinels; empty with ``path``.
        path: The Unix socket of a server on this machine; empty with ``hosts``.
        name: The server's name for the Sentinels; empty without Sentinels.
        tls: Whether the connection is encrypted.
        username: The user; None for the default one.
        password: Its password; None without one.
        database: The number of the database.
    """

    hosts: Sequence[tuple[str, int]] = ()
    path: str = ""
    name: str = ""
    tls: bool = False
    username: str | None = None
    password: str | None = None
    database: int = 0


def parse_redis_url(url: str) -> RedisUrl:
    """Parse a URL.

    Raises:
        ValueError: The URL is invalid; the message lists the valid forms.
    """
    scheme, separator, _ = url.partition("://")
    if not separator or scheme not in SCHEMES:
        raise ValueError(f"The URL of Redis begins with none of {', '.join(SCHEMES)}. {_FORM}.")
    try:
        parts = urlsplit(url)
    except ValueError:  # its message quotes the host, which may contain a password
        raise ValueError(f"The URL of Redis names a server that is none. {_FORM}.") from None
    if parts.query or parts.fragment:
        raise ValueError(
            f"The URL of Redis has a ? or # (in a password they are %3F and %23). {_FORM}."
        )
    user, at, places = parts.netloc.rpartition("@")
    username, colon, password = user.partition(":")
    path = [unquote(part) for part in parts.path.split("/")[1:]]
    known = RedisUrl(
        tls=scheme in _TLS,
        username=unquote(username) or None if at else None,
        password=unquote(password) if colon else None,
    )
    if scheme == "unix":
        if not parts.path:
            raise ValueError(f"The URL of Redis has no path of a socket. {_FORM}.")
        return msgspec.structs.replace(known, path=unquote(parts.path))
    is_sentinel = scheme.endswith("+sentinel")
    name = path.pop(0) if is_sentinel and path else ""
    if is_sentinel and not name:
        raise ValueError(f"The URL of Redis does not say which server the Sentinels know. {_FORM}.")
    hosts = [_host(place, SENTINEL_PORT if is_sentinel else PORT) for place in places.split(",")]
    if len(hosts) > 1 and not is_sentinel:
        raise ValueError(f"The URL of Redis names several servers. {_FORM}.")
    return msgspec.structs.replace(
        known, hosts=tuple(hosts), name=name, database=_database("/".join(path))
    )


def masked(url: str) -> str:
    """Return a URL without its password and query, for display.

    Also works for invalid URLs: the text before the last ``@`` counts as user and password.
    """
    scheme, separator, rest = url.partition("://")
    user, at, shown = rest.rpartition("@")
    if at:
        user = user.partition(":")[0] + (":***" if ":" in user else "")
    return f"{scheme}{separator}{user}{at}{re.split('[?#]', shown, maxsplit=1)[0]}"


def _host(place: str, port: int) -> tuple[str, int]:
    try:
        split = urlsplit(f"//{place}")
        given = split.port
    except ValueError:  # its message quotes what may be part of a password
        raise ValueError(f"The URL of Redis has a port that is none. {_FORM}.") from None
    return split.hostname or "localhost", given or port


def _database(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"The URL of Redis has a database that is not a number. {_FORM}.")
    return int(text)
