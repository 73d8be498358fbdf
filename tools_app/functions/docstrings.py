"""What a docstring says: of the function as a whole, and of each parameter.

Google's, numpy's and Sphinx's (reST) ways of writing parameters are understood.
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
"""What of a docstring is read and shown to models; the rest is cut."""

# Some patterns of the parser take time that grows with the cube of a line's length. What stands
# before the colon in the line of a parameter is short; where it is not, they must find nothing.
_MAX_HEAD_CHARS = 120
_MAX_HEAD_PARENTHESES = 4
_HIDDEN = "\ue000"  # a character of private use, which stands for "(" meanwhile
_LONG_SPACE = re.compile(r"[^\S\n]{64,}")


class Documentation(msgspec.Struct, frozen=True, kw_only=True):
    """A docstring: the text without its sections, and what it says of each parameter."""

    description: str
    parameters: dict[str, str] = msgspec.field(default_factory=dict)


def read_docstring(text: str | None) -> Documentation:
    """Read a docstring, in time that is bounded whatever it contains."""
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
    """Return what the style found that finds most; None when none can read the text."""
    from docstring_parser import (  # noqa: PLC0415 - only tool hosts and library users read any
        DocstringStyle,
        ParseError,
        parse,
    )

    def readings() -> Iterator["Docstring"]:
        for style in (DocstringStyle.GOOGLE, DocstringStyle.NUMPYDOC, DocstringStyle.REST):
            try:
                yield parse(text, style)
            except (ParseError, LookupError, ValueError):
                continue  # it is written in another style; its parsers miss some cases, such as ":"

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
