"""Declares what a check of ``mochi-server doctor`` found."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from sessions_app.errors import MochiError

State = Literal["ok", "note", "broken"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; ``broken`` means that the server can't work."""

    check: str
    state: State
    detail: str


def finding_of(check: str, find: Callable[[], Finding]) -> Finding:
    """Return what ``find`` finds, or that it could not look."""
    try:
        return find()
    except MochiError as error:
        return Finding(check, "broken", error.message)
    except OSError as error:
        return Finding(check, "broken", f"{error.filename}: {error.strerror}")
