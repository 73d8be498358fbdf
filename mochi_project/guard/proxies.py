"""Reads the client's address from the headers of trusted proxies. Pure.

A reverse proxy or tunnel in front of a server on loopback opens that server to all clients of the
proxy. Only the headers that proxies add reveal it, not the connection.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mochi_project.configuration.setting_types import UNIX_PEER

_ADDED_BY_PROXIES = frozenset(
    {
        b"cdn-loop",
        b"cf-connecting-ip",
        b"client-ip",
        b"fastly-client-ip",
        b"forwarded",
        b"true-client-ip",
        b"via",
        b"x-client-ip",
        b"x-cluster-client-ip",
        b"x-envoy-external-address",
        b"x-original-forwarded-for",
        b"x-real-ip",
    }
)
_ADDED_PREFIX = b"x-forwarded-"

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
RawHeaders = Iterable[tuple[bytes, bytes]]


def proxy_header(headers: RawHeaders) -> str | None:
    """Return the name of the first header that only a proxy adds, or None."""
    for name, _ in headers:
        if name.startswith(_ADDED_PREFIX) or name in _ADDED_BY_PROXIES:
            return name.decode("latin-1")
    return None


class TrustedProxies:
    """Decides which peers' proxy headers are trusted (``MOCHI_TRUSTED_PROXIES``).

    Args:
        names: Addresses, networks, and ``unix`` for Unix sockets.
    """

    def __init__(self, names: Iterable[str]) -> None:
        listed = list(names)
        self._unix = UNIX_PEER in listed
        self._networks: list[Network] = [
            ipaddress.ip_network(name, strict=False) for name in listed if name != UNIX_PEER
        ]

    @property
    def trust_any(self) -> bool:
        """Return whether any peer is trusted."""
        return self._unix or bool(self._networks)

    def trust_peer_of(self, scope: Mapping[str, Any]) -> bool:
        """Return whether the peer of a request's connection is trusted."""
        peer = _peer_of(scope)
        if not peer and (scope.get("server") or ("", None))[1] is not None:
            return False  # a TCP connection that has ended
        return self._trust(_address(peer)) if peer else self._unix

    def client_of(self, scope: Mapping[str, Any]) -> str:
        """Return the client: an IPv4 address, the /64 network of an IPv6 address, or ``unix``.

        It is the peer or, if that is trusted, the last address in ``X-Forwarded-For`` (or else
        ``Forwarded``) that is not a trusted proxy.
        """
        client = _peer_of(scope) or UNIX_PEER
        if self.trust_peer_of(scope):
            for forwarded in _forwarded_addresses(scope["headers"]):
                address = _address(forwarded)
                if address is None:
                    break  # earlier addresses can't be trusted
                client = forwarded
                if not self._trust(address):
                    break
        address = _address(client)
        if address is None:
            return client
        if isinstance(address, ipaddress.IPv6Address):
            return str(ipaddress.ip_network((address, 64), strict=False))
        return str(address)

    def _trust(self, address: Address | None) -> bool:
        return address is not None and any(address in network for network in self._networks)


def _peer_of(scope: Mapping[str, Any]) -> str | None:
    client = scope.get("client")
    return client[0] if client else None


def _address(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address


def _forwarded_addresses(headers: RawHeaders) -> Iterator[str]:
    """Yield the forwarded addresses, last one first."""
    found = {b"x-forwarded-for": "", b"forwarded": ""}
    for name, value in headers:
        if name in found:
            found[name] = f"{found[name]},{value.decode('latin-1')}"
    for element in reversed((found[b"x-forwarded-for"] or _for_of(found[b"forwarded"])).split(",")):
        if element.strip():
            yield _without_port(element.strip())


def _for_of(forwarded: str) -> str:
    """Return the values of ``for`` in the header ``Forwarded`` (RFC 7239)."""
    pairs = (pair.partition("=") for element in forwarded.split(",") for pair in element.split(";"))
    return ",".join(
        value.strip().strip('"') for name, _, value in pairs if name.strip().lower() == "for"
    )


def _without_port(text: str) -> str:
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text
