"""Limits a policy of a tool to calls with certain arguments (docs/decisions/0142). Pure."""

import fnmatch
import json
from collections.abc import Mapping
from typing import Any

import msgspec

MOST_SCOPES = 20
"""The maximum scopes of one tool, and arguments of one scope."""
LONGEST_GLOB = 200
ANY = "*"
_LONGEST_TEXT = 4096


class PolicyScope(msgspec.Struct, frozen=True, kw_only=True):
    """A policy for calls of a tool with certain arguments.

    Attributes:
        policy: An ``ExecutionPolicy``; an unknown one counts as ``always_confirm``.
        arguments: Globs by the names of arguments, all of which a call must have and fit.
    """

    policy: str
    arguments: Mapping[str, str]

    def covers(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether a call has all of the named arguments, and each fits its glob."""
        return bool(self.arguments) and all(
            name in arguments and _fits(glob, arguments[name])
            for name, glob in self.arguments.items()
        )


def _fits(glob: str, value: Any) -> bool:
    """Return whether the whole text of a value fits a glob, in which only ``*`` and ``?`` are wild.

    A wildcard stands for any text of one line, except where that may mean more than it shows:
    parts of lists and objects, ``..``, control characters. A lone ``*`` fits everything.
    """
    if glob == ANY:
        return True
    text = value if isinstance(value, str) else _canonical(value)
    if glob == text:
        return True
    if isinstance(value, Mapping | list) or len(text) > _LONGEST_TEXT:
        return False
    if ".." in text or not text.isprintable():
        return False
    return fnmatch.fnmatchcase(text, glob.replace("[", "[[]"))


def _canonical(value: Any) -> str:
    return json.dumps(
        value, default=dict, sort_keys=True, ensure_ascii=False, separators=(",", ":")
    )
