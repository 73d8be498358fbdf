"""Checks ``Host`` and ``Origin`` against the allowed hosts and origins. Pure.

Any web page that a user visits can make the browser send requests here. Two properties of browsers
prevent attacks: DNS rebinding needs a *name* in ``Host`` (an IP address can't be rebound), and a
page can't forge ``Origin`` or ``Sec-Fetch-Site``.
"""

import ipaddress
import re
from collections.abc import Iterable

from mochi_project.configuration.config import is_loopback
from mochi_project.configuration.setting_errors import ConfigurationError

_DEFAULT_PORTS = {"http": 80, "https": 443}
_AUTHORITY = re.compile(
    r"\A(?:\[(?P<v6>[0-9A-Fa-f:.]{2,45})\]|(?P<name>[A-Za-z0-9._-]{1,255}))(?::(?P<port>[0-9]{1,5}))?\Z"
)
_ORIGIN = re.compile(r"\A(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?#@\s]+)\Z")


class AccessPolicy:
    """Decides which hosts and origins are allowed.

    Args:
        allowed_hosts: Names in addition to ``localhost`` and IP addresses; ``.example.org`` allows
            all names below ``example.org``.
        cors_origins: Origins in addition to the server's own and loopback ones. Any scheme is
            valid (``tauri://localhost``), but not ``null`` and ``*``.

    Raises:
        ConfigurationError: A host or an origin is invalid; the message names the variable.
    """

    def __init__(self, *, allowed_hosts: Iterable[str] = (), cors_origins: Iterable[str] = ()):
        names = [_configured_host(name) for name in allowed_hosts]
        self._names = frozenset(name for name in names if not name.startswith("."))
        self._suffixes = tuple(name for name in names if name.startswith("."))
        self._origins = frozenset(_configured_origin(origin) for origin in cors_origins)

    def allows_host(self, host: bytes) -> bool:
        """Return whether the value of a ``Host`` header is allowed."""
        authority = _split_authority(host.decode("latin-1"))
        if authority is None:
            return False
        name, _ = authority
        return (
            name == "localhost"
            or name in self._names
            or _ip_address(name) is not None
            or name.endswith(self._suffixes)
        )

    def allows_origin(self, origin: bytes, host: bytes) -> bool:
        """Return whether pages of this ``Origin`` may call the server at ``host``."""
        normalised = normalise_origin(origin.decode("latin-1"))
        if normalised is None:
            return False
        if normalised in self._origins:
            return True
        scheme, _, rest = normalised.partition("://")
        default_port = _DEFAULT_PORTS.get(scheme)
        authority = _split_authority(rest)
        if default_port is None or authority is None:
            return False
        name, port = authority
        if is_loopback(name):
            return True
        own = _split_authority(host.decode("latin-1"))
        # Behind a TLS-terminating proxy the Host header has no port, while the origin implies 443.
        return own is not None and (name, port or default_port) == (own[0], own[1] or default_port)


def normalise_origin(text: str) -> str | None:
    """Normalise an origin as browsers write it, without a default port; None if it is invalid."""
    match = _ORIGIN.match(text.strip().lower().removesuffix("/"))
    if match is None:
        return None
    scheme, authority = match["scheme"], match["authority"]
    default_port = _DEFAULT_PORTS.get(scheme)
    if default_port is None:
        return f"{scheme}://{authority}"
    split = _split_authority(authority)
    if split is None:
        return None
    name, port = split
    shown = f"[{name}]" if ":" in name else name
    return f"{scheme}://{shown}" if port in {None, default_port} else f"{scheme}://{shown}:{port}"


def _configured_host(text: str) -> str:
    name = text.strip().lower()
    authority = _split_authority(name.removeprefix("."))
    if authority is None:
        raise ConfigurationError(
            f"MOCHI_ALLOWED_HOSTS: {text!r} is not a host name; "
            "write names like mochi.lan, or .example.org for all names below it"
        )
    return f".{authority[0]}" if name.startswith(".") else authority[0]


def _configured_origin(text: str) -> str:
    origin = normalise_origin(text)
    if origin is None:
        raise ConfigurationError(
            f"MOCHI_CORS_ORIGINS: {text!r} is not an origin; "
            "write the scheme, the host and the port, like https://app.example.org "
            "('*' and 'null' would let every web page in)"
        )
    return origin


def _split_authority(text: str) -> tuple[str, int | None] | None:
    """Split ``name:port`` into a comparable name and a port; None if it is malformed."""
    match = _AUTHORITY.match(text)
    if match is None:
        return None
    port = int(match["port"]) if match["port"] else None
    if match["v6"] is not None:
        address = _ip_address(match["v6"])
        return None if address is None else (address.compressed, port)
    return match["name"].lower().removesuffix("."), port


def _ip_address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
