"""Identifies the client of a request, for the limit of turns per client."""

from functools import lru_cache

from django.http import HttpRequest

from chat.settings import ChatSettings
from chat.start.turn_limits import client_named
from mochi_project.app import service
from mochi_project.configuration.config import ServerSettings
from mochi_project.guard.proxies import TrustedProxies
from mochi_project.principal import DEFAULT_OWNER, principal


def client_of(request: HttpRequest) -> str | None:
    """Return the client for the limit of turns; None if turns are not limited per client.

    It is the owner of a key, and of what a proxy reports; clients that share the server's own
    token, or need none, are told apart by their addresses.
    """
    scope = getattr(request, "scope", None)
    if not service(ChatSettings).max_turns_per_client or scope is None:
        return None
    acting = principal()
    if acting.key_id is not None or acting.owner != DEFAULT_OWNER:
        return client_named(acting.owner)
    return _proxies(tuple(service(ServerSettings).trusted_proxies)).client_of(scope)


@lru_cache(maxsize=8)
def _proxies(names: tuple[str, ...]) -> TrustedProxies:
    return TrustedProxies(names)
