"""Reads variables from the environment and ``.env``, unvalidated.

pydantic-settings does the same, for a fourteenth of the time that the server takes to start.
"""

import json
import os
from collections import ChainMap
from collections.abc import Container, Iterable, Iterator, Mapping
from io import StringIO
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dotenv.parser import Binding

MAX_VALUE_BYTES = 1 << 20
"""The largest size of all values of a ``.env`` together, with their references filled in."""


def variables_of(
    source: Mapping[str, str | None],
    prefix: str,
    *,
    objects: Container[str],
    former: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the values of a source's variables with a prefix, by lower-case names without it.

    An empty variable counts as one that is not set.

    Args:
        source: The environment, or the content of a file.
        prefix: The prefix of the names, in either case.
        objects: Names of objects: ``NAME`` is the whole object as JSON, ``NAME__MINE__PART`` the
            value of ``part`` in the object ``mine`` in it. Text that is not JSON is left as it is,
            for validation to refuse.
        former: Deprecated aliases, ``{former name: name}``.
    """
    lowered = {name.lower(): value for name, value in source.items()}
    return with_current_names(_values_of(lowered, prefix.lower(), objects), former)


def with_current_names(values: Mapping[str, Any], former: Mapping[str, str]) -> dict[str, Any]:
    """Return values with former names replaced; a value under the current name wins."""
    renamed = {former[name]: value for name, value in values.items() if name in former}
    return {**renamed, **{name: value for name, value in values.items() if name not in former}}


def read_file(path: str) -> Mapping[str, str | None]:
    """Return the variables in a ``.env`` file; none if there is no file.

    Raises:
        OSError: It can't be read.
        UnicodeDecodeError: It is not UTF-8.
    """
    file = Path(path)
    return parse_file(file.read_bytes()) if file.is_file() else {}


def parse_file(content: bytes) -> Mapping[str, str | None]:
    """Return the variables in the content of a ``.env`` file, with each ``${NAME}`` filled in.

    The work is bounded, because the file may not be trusted yet. dotenv's own interpolation takes
    minutes for many variables, and all memory for values that double each other.

    Raises:
        UnicodeDecodeError: It is not UTF-8.
        OSError: Its values are larger than 1 MiB.
    """
    parsed = _bindings(content.decode())
    return _filled_in((each.key, each.value) for each in parsed if each.key is not None)


def broken_lines(content: bytes) -> list[int]:
    """Return the numbers of the lines in a ``.env`` that are not ``NAME=VALUE``, nor a comment.

    Raises:
        UnicodeDecodeError: It is not UTF-8.
    """
    found = []
    # dotenv counts the end of a broken line twice if it is CR LF.
    for each in _bindings(content.decode().replace("\r\n", "\n")):
        if each.error:
            text = each.original.string  # with the empty lines before it
            blank = text[: len(text) - len(text.lstrip())]
            found.append(each.original.line + blank.count("\n"))
    return found


def _bindings(content: str) -> "Iterator[Binding]":
    """Parse a ``.env``. dotenv's own reading logs each broken line whenever a file is read."""
    from dotenv.parser import parse_stream  # noqa: PLC0415 - most servers have no such file

    return parse_stream(StringIO(content))


def _filled_in(parsed: Iterable[tuple[str, str | None]]) -> Mapping[str, str | None]:
    from dotenv.variables import parse_variables  # noqa: PLC0415 - as above

    values: dict[str, str | None] = {}
    known: ChainMap[str, str | None] = ChainMap(values, {**os.environ})
    left = MAX_VALUE_BYTES
    for name, value in parsed:
        pieces: list[str] = []
        for atom in () if value is None else parse_variables(value):
            pieces.append(atom.resolve(known))
            left -= len(pieces[-1])
            if left < 0:
                raise OSError(f"its values are larger than {MAX_VALUE_BYTES} bytes")
        values[name] = None if value is None else "".join(pieces)
    return values


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two mappings: ``above`` wins, and objects are merged member by member.

    Text in the place of an object is kept, so that validation refuses it.
    """
    both = {**below, **above}
    for name in below.keys() & above.keys():
        if isinstance(above[name], dict):
            both[name] = below[name]
            if isinstance(below[name], dict):
                both[name] = merged(below[name], above[name])
    return both


def _values_of(
    source: Mapping[str, str | None], prefix: str, objects: Container[str]
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for variable in sorted(source):  # an object before its parts
        text = source[variable]
        if not text or not variable.startswith(prefix):
            continue
        name, *path = variable.removeprefix(prefix).split("__")
        if name in objects:
            _put(values, [name, *path], text)
        elif not path:
            values[name] = text
    return values


def _put(target: dict[str, Any], path: list[str], text: str) -> None:
    for name in path[:-1]:
        inner = target.setdefault(name, {})
        if not isinstance(inner, dict):
            return  # it can have no parts
        target = inner
    target[path[-1]] = _decoded(text) if len(path) < 3 else text


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
