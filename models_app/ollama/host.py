"""Parses the address of an Ollama server, and names the default timeouts. Pure."""

import base64
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

DEFAULT_HOST = "http://localhost:11434"
CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 300.0
_DEFAULT_PORT = 11434
_THIS_MACHINE = "127.0.0.1"
_NO_PORT = "must have a number after the colon, or be an http:// or https:// URL"


class OllamaHost(msgspec.Struct, frozen=True):
    """An Ollama server's address.

    Attributes:
        url: The base URL without credentials and without a slash at its end; safe to show.
        authorization: The ``Authorization`` header made of the URL's credentials, or None.
    """

    url: str
    authorization: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The headers that every request needs."""
        return {} if self.authorization is None else {"Authorization": self.authorization}


def full_url(address: str) -> str:
    """Add what ``name[:port][/path]`` lacks of a URL: ``http://``, a name, Ollama's own port.

    A URL stays as it is.

    Raises:
        ValueError: There is a colon, and no port after it.
    """
    text = address.strip()
    if "://" in text:
        return text
    parts = urlsplit(f"http://{text}")
    location = parts.netloc
    try:
        port = parts.port
    except ValueError as error:
        raise ValueError(_NO_PORT) from error
    if location.endswith(":"):
        raise ValueError(_NO_PORT)
    if port is None:
        location = f"{location}:{_DEFAULT_PORT}"
    if parts.hostname is None:
        credentials, at, colon_and_port = location.rpartition("@")
        location = f"{credentials}{at}{_THIS_MACHINE}{colon_and_port}"
    return urlunsplit((parts.scheme, location, parts.path, parts.query, parts.fragment))


def parse_host(host: str | None) -> OllamaHost:
    """Parse an address: a URL, or ``name[:port]`` with Ollama's own port as default.

    Raises:
        ValueError: It is no http(s) address.
    """
    parts = urlsplit(full_url(host or DEFAULT_HOST))
    if parts.scheme not in {"http", "https"}:
        raise ValueError("an Ollama address starts with http:// or https://")
    name = parts.hostname or _THIS_MACHINE
    location = f"[{name}]" if ":" in name else name
    if parts.port is not None:
        location = f"{location}:{parts.port}"
    authorization = None
    if parts.username is not None:
        secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {base64.b64encode(secret.encode()).decode('ascii')}"
    return OllamaHost(f"{parts.scheme}://{location}{parts.path.rstrip('/')}", authorization)
