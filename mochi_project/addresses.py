"""Decides which IP addresses the URL of a stranger may lead to, and finds them.

Only public ones, because hosts in the server's own network may trust it (docs/decisions/0076).
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address

_PORTS = frozenset({80, 443})
_NOT_PUBLIC = [
    IPv4Network("192.88.99.0/24"),  # relays of 6to4
    # IETF's own: a cloud has its metadata at 192.0.0.192, and Python takes that for public.
    IPv4Network("192.0.0.0/24"),
]
_STANDS_FOR_OTHERS = [
    IPv6Network(text)
    for text in (
        "::/96",  # IPv4-compatible
        "::ffff:0:0/96",  # IPv4-mapped
        "::ffff:0:0:0/96",  # IPv4-translated
        "64:ff9b::/96",  # NAT64
        "64:ff9b:1::/48",  # NAT64, local use
        "2001::/32",  # Teredo
        "2002::/16",  # 6to4
        "fec0::/10",  # site-local
        "3fff::/20",  # documentation
    )
]
"""IPv6 networks whose addresses are nobody's, or stand for others, of which a gateway may reach
any."""


AddressPolicy = Callable[[str, int], bool]
"""Returns whether a connection to an IP address and a port may be made."""
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host; raises OSError if it has none."""


async def system_addresses(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host from the system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(each[4][0]) for each in found]


def is_public_web(address: str, port: int) -> bool:
    """Return whether an IP address and a port are those of a public web server."""
    return port in _PORTS and is_public(address)


def is_public(address: str) -> bool:
    """Return whether an IP address is public and unicast."""
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    if not ip.is_global or ip.is_multicast or ip.is_reserved or ip.is_unspecified:
        return False
    if isinstance(ip, IPv4Address):
        return not any(ip in network for network in _NOT_PUBLIC)
    return ip.scope_id is None and not any(ip in network for network in _STANDS_FOR_OTHERS)


def is_this_machine(address: str, port: int) -> bool:  # noqa: ARG001 - a policy
    """Return whether an IP address is this machine's own."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def all_allowed(policy: AddressPolicy, addresses: Sequence[str], port: int) -> bool:
    """Return whether there is at least one address and all are allowed."""
    return bool(addresses) and all(policy(each, port) for each in addresses)


def is_address(host: str) -> bool:
    """Return whether the host of a URL is an IP address, not a name."""
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
