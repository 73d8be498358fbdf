"""Determines the path prefix under which a proxy serves this server. Pure."""

from mochi_project.asgi_types import Scope
from mochi_project.configuration.setting_types import ROOT_PATH
from mochi_project.guard.proxies import TrustedProxies

_MOST_BYTES = 200


class RootPath:
    """Sets the path prefix of requests, with which links have to begin.

    It is that of ``X-Forwarded-Prefix`` from a trusted proxy, or else ``MOCHI_ROOT_PATH``. A proxy
    may strip the configured prefix from requests or not. A header's prefix always counts as
    stripped and is added to the path: otherwise a client's own header, passed on, could turn a
    path that the proxy lets everybody use into another one.

    Args:
        configured: The configured prefix, or "".
        proxies: The proxies whose header is trusted.
    """

    def __init__(self, configured: str, proxies: TrustedProxies) -> None:
        self._configured = configured
        self._proxies = proxies
        self._is_plain = not configured and not proxies.trust_any

    def applied_to(self, scope: Scope) -> Scope:
        """Return the scope of a request with the prefix added to its ``root_path``."""
        if self._is_plain:
            return scope
        prefix = self._forwarded(scope) or self._configured
        if not prefix:
            return scope
        path = scope["path"]
        is_left_in = path == prefix or path.startswith(f"{prefix}/")
        if not is_left_in or prefix != self._configured:
            path = prefix + path
        return {**scope, "path": path, "root_path": prefix + scope.get("root_path", "")}

    def _forwarded(self, scope: Scope) -> str | None:
        if not self._proxies.trust_any:
            return None
        given = [value for name, value in scope["headers"] if name == b"x-forwarded-prefix"]
        if len(given) != 1 or len(given[0]) > _MOST_BYTES or not self._proxies.trust_peer_of(scope):
            return None
        prefix = given[0].decode("latin-1").strip().rstrip("/")
        return prefix if ROOT_PATH.fullmatch(prefix) else None


def path_below_root(scope: Scope) -> str:
    """Return a request's path without the prefix of a proxy or a mounting application."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))
