"""Parses JSON that is nested too deeply for recursive parsers. Pure."""

import re
from typing import Any

import msgspec

DEEPEST = 100_000
"""The maximum nesting depth."""

_TOKEN = re.compile(
    r'\s*+(?:([\[{])|([\]}])|([,:])|("(?:[^"\\]++|\\.)*+"|[^\s\[\]{},:"]++))', re.DOTALL
)
_CLOSING = {"[": "]", "{": "}"}


class NotJson(ValueError):
    """Raised for invalid or too deeply nested JSON; the message has the position."""


def parse_deep(text: str) -> Any:
    """Parse a JSON text.

    Commas and colons are not checked strictly, because a strict parser has accepted the text up to
    its nesting limit.

    Raises:
        NotJson: The text is not valid JSON, or nested too deeply.
    """
    root: list[Any] = []
    stack: list[Any] = []
    holder: Any = root
    key: str | None = None
    at, end = 0, len(text.rstrip())
    while at < end:
        token = _TOKEN.match(text, at)
        if token is None:
            raise NotJson(f"unexpected at character {at}")
        at = token.end()
        opening, closing, _, atom = token.groups()
        if opening:
            if len(stack) >= DEEPEST:
                raise NotJson(f"nested deeper than {DEEPEST:,}")
            value: Any = {} if opening == "{" else []
            stack.append(holder)
            _put(holder, key, value, at)
            holder, key = value, None
        elif closing:
            if not stack or key is not None or isinstance(holder, dict) != (closing == "}"):
                raise NotJson(f"unexpected {closing} at character {at}")
            holder = stack.pop()
        elif atom:
            found = _atom(atom, at)
            if isinstance(holder, dict) and key is None:
                if not isinstance(found, str):
                    raise NotJson(f"no key at character {at}")
                key = found
            else:
                _put(holder, key, found, at)
                key = None
    if stack or len(root) != 1:
        raise NotJson("it ends in the middle")
    return root[0]


def _put(holder: Any, key: str | None, value: object, at: int) -> None:
    if isinstance(holder, list):
        holder.append(value)
    elif key is not None:
        holder[key] = value
    else:
        raise NotJson(f"no key at character {at}")


def _atom(text: str, at: int) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError as error:
        raise NotJson(f"{error} at character {at}") from error
