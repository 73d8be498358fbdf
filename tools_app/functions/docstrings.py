"""Reads the description of a function and of its parameters from a docstring.

Supports the styles of Google, numpy and Sphinx (reST).
"""

import inspect
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from sessions_app.surrogates import join_surrogates
from tools_app.text import shortened

if TYPE_CHECKING:
    from docstring_parser import Docstring

MAX_CHARS = 16 * 1024
"""The characters of a docstring that are read and shown to models."""

# Some patterns of the parser take time cubic in a line's length. The head of a parameter's line, up
# to the colon, is short; in a long head the patterns must not match, so parentheses are hidden.
_MAX_HEAD_CHARS = 120
_MAX_HEAD_PARENTHESES = 4
_HIDDEN = "\ue000"  # a private-use character in the place of "("
_LONG_SPACE = re.compile(r"[^\S\n]{64,}")


class Documentation(msgspec.Struct, frozen=True, kw_only=True):
    """A docstring: its text without sections, and the descriptions of parameters."""

    description: str
    parameters: dict[str, str] = msgspec.field(default_factory=dict)


def read_docstring(text: str | None) -> Documentation:
    """Parse a docstring, in bounded time."""
    if not text:
        return Documentation(description="")
    cleaned = shortened(inspect.cleandoc(shortened(join_surrogates(text), MAX_CHARS)), MAX_CHARS)
    parsed = _parsed(_tamed(cleaned))
    if parsed is None:
        return Documentation(description=cleaned)
    parameters = {
        _name(parameter.arg_name): _one_line(parameter.description or "")
        for parameter in parsed.params
    }
    return Documentation(
        description=_restored(parsed.description or ""),
        parameters={name: text for name, text in parameters.items() if text},
    )


def _parsed(text: str) -> "Docstring | None":
    """Return the result of the style that finds most; None if no style can parse the text."""
    from docstring_parser import (  # noqa: PLC0415 - used in tool processes and by library users only
        DocstringStyle,
        ParseError,
        parse,
    )

    def readings() -> Iterator["Docstring"]:
        for style in (DocstringStyle.GOOGLE, DocstringStyle.NUMPYDOC, DocstringStyle.REST):
            try:
                yield parse(text, style)
            except (ParseError, LookupError, ValueError):
                continue  # written in another style; the parser does not handle all errors itself

    return max(readings(), key=lambda parsed: len(parsed.meta), default=None)


def _tamed(text: str) -> str:
    return "\n".join(_tamed_line(line) for line in _LONG_SPACE.sub(" " * 64, text).split("\n"))


def _tamed_line(line: str) -> str:
    head, colon, rest = line.partition(":")
    if len(head) > _MAX_HEAD_CHARS or head.count("(") > _MAX_HEAD_PARENTHESES:
        head = head.replace("(", _HIDDEN)
    return head + colon + rest


def _restored(text: str) -> str:
    return text.replace(_HIDDEN, "(").strip()


def _one_line(text: str) -> str:
    return " ".join(_restored(text).split())


def _name(name: str) -> str:
    return name.strip().lstrip("*")
