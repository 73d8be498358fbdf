"""Parses the address of an Ollama server, and names the default timeouts. Pure."""

import base64
from urllib.parse import unquote, urlsplit

import msgspec

DEFAULT_HOST = "http://localhost:11434"
CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 300.0
_DEFAULT_PORT = 11434


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


def parse_host(host: str | None) -> OllamaHost:
    """Parse an address: a URL, or ``name[:port]`` with Ollama's own port as default.

    Raises:
        ValueError: It is no http(s) address.
    """
    text = (host or DEFAULT_HOST).strip().rstrip("/")
    has_scheme = "://" in text
    parts = urlsplit(text if has_scheme else f"http://{text}")
    if parts.scheme not in {"http", "https"}:
        raise ValueError("an Ollama address starts with http:// or https://")
    name = parts.hostname or "127.0.0.1"
    port = parts.port if parts.port is not None or has_scheme else _DEFAULT_PORT
    location = f"[{name}]" if ":" in name else name
    if port is not None:
        location = f"{location}:{port}"
    authorization = None
    if parts.username is not None:
        secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {base64.b64encode(secret.encode()).decode('ascii')}"
    return OllamaHost(f"{parts.scheme}://{location}{parts.path.rstrip('/')}", authorization)
