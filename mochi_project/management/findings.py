"""Declares what a check of ``mochi-server doctor`` found."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "note", "broken"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; ``broken`` means that the server can't work."""

    check: str
    state: State
    detail: str
