"""Declares what a check of ``mochi-server doctor`` found."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from mochi_project.screen_text import printable
from sessions_app.errors import MochiError

State = Literal["ok", "note", "broken"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; ``broken`` means that the server can't work."""

    check: str
    state: State
    detail: str


Found = Finding | Iterable[Finding]


def findings_of(check: str, find: Callable[[], Found]) -> Iterator[Finding]:
    """Yield what a check finds and, if it fails, why; never raises its errors."""
    try:
        found = find()
        yield from (found,) if isinstance(found, Finding) else found
    except Exception as error:  # noqa: BLE001 - reported
        yield _broken(check, error)


async def findings_awaited(check: str, finding: Awaitable[Found]) -> list[Finding]:
    """Return what a check finds that asks others; or why it failed."""
    try:
        found = await finding
    except Exception as error:  # noqa: BLE001 - reported
        return [_broken(check, error)]
    return list(findings_of(check, lambda: found))


def _broken(check: str, error: Exception) -> Finding:
    if isinstance(error, MochiError):
        return Finding(check, "broken", printable(error.message))
    if isinstance(error, OSError) and error.filename is not None:
        return Finding(check, "broken", printable(f"{error.filename}: {error.strerror}"))
    detail = f"this could not be checked: {type(error).__name__}: {error}"
    return Finding(check, "broken", printable(detail))
