"""Declares who a request, a task or a command acts for: an owner of data, with scopes.

This module imports no app, so that all of them can import it (docs/decisions/0202).
"""

import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal, get_args

DEFAULT_OWNER = "default"
"""The owner of the data outside ``users/``: all of it, before there are keys of others."""
Scope = Literal["read", "chat", "write", "approve", "admin", "metrics"]
SCOPES = frozenset(get_args(Scope))

OWNER_PATTERN = "[a-z0-9][a-z0-9._-]{0,63}"
"""Matches the whole name of an owner."""
_OWNER = re.compile(OWNER_PATTERN)


class InvalidOwner(ValueError):
    """This can't be the name of an owner, which is that of a folder, too."""

    def __init__(self, owner: str) -> None:
        super().__init__(
            f"{owner[:100]!r} is no name of an owner: use up to 64 lowercase letters, digits, "
            "'.', '_' and '-', beginning with a letter or a digit."
        )


def is_owner(name: str) -> bool:
    """Return whether a name can be an owner's, and is no path to something else."""
    return _OWNER.fullmatch(name) is not None


def require_owner(name: str) -> None:
    """Check that a name can be an owner's.

    Raises:
        InvalidOwner: It could be a path to something else.
    """
    if not is_owner(name):
        raise InvalidOwner(name)


@dataclass(frozen=True, slots=True)
class Principal:
    """Names the owner that a request, a task or a command acts for, and what it may do.

    Attributes:
        owner: Whose data it reads and writes.
        scopes: What it may do: some of ``SCOPES``.
        key_id: The id of its key; None for the server's own token, clients of this machine without
            one, and proxies.
        models: Patterns of the models that it may use.
        key_hash: The hash of the token that was sent; streams end once its key has another.

    Raises:
        InvalidOwner: The name of the owner could be a path to something else.
    """

    owner: str
    scopes: frozenset[str]
    key_id: str | None = None
    models: tuple[str, ...] = ("*",)
    key_hash: str | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        require_owner(self.owner)


OPERATOR = Principal(DEFAULT_OWNER, SCOPES)
"""The person who runs the server, by ``MOCHI_API_TOKEN``, on this machine, by commands."""

IN_SCOPE = "mochi.principal"
"""The key under which the guard puts it into the scope of a request that it admits."""

PRINCIPAL: ContextVar[Principal] = ContextVar("mochi_principal")
"""The principal of the running code. It has no default, so that code that nobody sent fails."""

_acted_for: Counter[str] = Counter()
_counting = threading.Lock()


def principal() -> Principal:
    """Return who the running code acts for.

    Raises:
        LookupError: It was not said, by a request or by ``acting_for``.
    """
    return PRINCIPAL.get()


def is_acted_for(owner: str) -> bool:
    """Return whether a block of ``acting_for`` runs for this owner, in any thread or task."""
    return _acted_for[owner] > 0


@contextmanager
def acting_for(principal_or_owner: Principal | str) -> Iterator[None]:
    """Act for a principal, or for an owner with all scopes, in the block.

    Raises:
        InvalidOwner: This is no name of an owner.
    """
    acting = principal_or_owner
    if isinstance(acting, str):
        acting = Principal(acting, SCOPES)
    with _counting:
        _acted_for[acting.owner] += 1
    token = PRINCIPAL.set(acting)
    try:
        yield
    finally:
        PRINCIPAL.reset(token)
        with _counting:
            _acted_for[acting.owner] -= 1
            if not _acted_for[acting.owner]:
                del _acted_for[acting.owner]


def log_fields() -> dict[str, str]:
    """Return what log lines say of the principal, never a token; nothing of the operator."""
    acting = PRINCIPAL.get(OPERATOR)
    if acting.key_id is not None:
        return {"owner": acting.owner, "key_id": acting.key_id}
    return {} if acting.owner == DEFAULT_OWNER else {"owner": acting.owner}
