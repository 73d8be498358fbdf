"""Declares ``oauth`` of an entry of ``mcp.json``: how to log in to a server over HTTP. Pure."""

from typing import Literal
from urllib.parse import urlsplit

import msgspec


class OAuthSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Says how this server logs in to an MCP server; all of it is optional.

    Attributes:
        grant: ``authorization_code``, where a person logs in with a browser, or
            ``client_credentials``, where the server does so by itself.
        client_id: The id with which this server was registered by hand.
        client_secret: Its secret there, with ``${VAR}`` expanded.
        issuer: The authorization server that the id and the secret belong to, which may have a
            private address.
        scope: Scopes to ask for, beside those that the server demands; separated by spaces.
        client_metadata_url: The https URL of a document that describes this client, used as its id
            where authorization servers support that.
        token_endpoint_auth_method: How the secret is sent.
    """

    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"
    client_id: str | None = None
    client_secret: str | None = None
    issuer: str | None = None
    scope: str | None = None
    client_metadata_url: str | None = None
    token_endpoint_auth_method: (
        Literal["none", "client_secret_basic", "client_secret_post"] | None
    ) = None

    @property
    def by_itself(self) -> bool:
        """Return whether nobody has to log in."""
        return self.grant == "client_credentials"

    @property
    def method(self) -> Literal["none", "client_secret_basic", "client_secret_post"]:
        """Return how the token endpoint is told who asks, if the client was registered by hand."""
        default: Literal["none", "client_secret_basic"]
        default = "client_secret_basic" if self.client_secret else "none"
        return self.token_endpoint_auth_method or default

    def fault(self) -> str | None:
        """Return what can't be used, as a sentence; None if all can."""
        if self.client_secret and not (self.client_id and self.issuer):
            return "'oauth' with a 'client_secret' needs the 'client_id' and the 'issuer' of it."
        if self.by_itself and not self.client_secret:
            return "'oauth' with the grant 'client_credentials' needs a 'client_secret'."
        if self.client_metadata_url is not None:
            parts = urlsplit(self.client_metadata_url)
            if parts.scheme != "https" or parts.path in {"", "/"}:
                return "'client_metadata_url' is not an https:// address with a path."
        if self.issuer is not None and urlsplit(self.issuer).scheme not in {"http", "https"}:
            return "The 'issuer' is not an http:// or https:// address."
        return None

    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"OAuthSpec(grant={self.grant!r}, issuer={self.issuer!r})"


def origin_of(url: str) -> str:
    """Return scheme, host and port of a URL, as they are compared."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return f"{parts.scheme}://{parts.hostname}:{port}"
