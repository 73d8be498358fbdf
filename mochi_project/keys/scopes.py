"""Checks what the running code may do where a route's scope is not all that it needs."""

from mochi_project.keys.errors import ScopeMissing
from mochi_project.principal import Scope, principal


def require_scope(scope: Scope) -> None:
    """Refuse what the principal has no scope for.

    Raises:
        ScopeMissing: It has not.
    """
    if scope not in principal().scopes:
        raise ScopeMissing(scope)
