"""What is set in the environment and in ``.env``, before anybody has checked it.

pydantic-settings would do it too, for a fourteenth of the time that the server takes to start.
"""

import json
import os
from collections import ChainMap
from collections.abc import Container, Iterable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

MAX_VALUE_BYTES = 1 << 20
"""How much all values of a ``.env`` may be, with what they refer to."""


def read_variables(prefix: str, path: str, *, objects: Container[str]) -> dict[str, Any]:
    """Return the values of the variables with a prefix, by lower-case names without it.

    The environment wins over the file.

    Args:
        prefix: What the names begin with, in either case.
        path: A file as :mod:`dotenv` reads it; none where there is no file.
        objects: As :func:`variables_of` takes them.

    Raises:
        OSError: The file can't be read.
        UnicodeDecodeError: The file is not UTF-8.
    """
    sources = (read_file(path), os.environ)
    return merged(*(variables_of(source, prefix, objects=objects) for source in sources))


def variables_of(
    source: Mapping[str, str | None], prefix: str, *, objects: Container[str]
) -> dict[str, Any]:
    """Return the values of a source's variables with a prefix, by lower-case names without it.

    An empty variable counts as one that is not set.

    Args:
        source: The environment, or what a file sets.
        prefix: What the names begin with, in either case.
        objects: Names of objects: of such a one ``NAME`` is the whole as JSON, and
            ``NAME__MINE__PART`` the value of ``part`` in the object ``mine`` in it. What is no JSON
            is left as text, for whoever checks the values.
    """
    lowered = {name.lower(): value for name, value in source.items()}
    return _values_of(lowered, prefix.lower(), objects)


def read_file(path: str) -> Mapping[str, str | None]:
    """Return what a ``.env`` file sets; nothing where there is no file.

    Raises:
        OSError: It can't be read.
        UnicodeDecodeError: It is not UTF-8.
    """
    file = Path(path)
    return parse_file(file.read_bytes()) if file.is_file() else {}


def parse_file(content: bytes) -> Mapping[str, str | None]:
    """Return what the content of a ``.env`` file sets, ``${NAME}`` in it being filled in.

    Its work is bounded, for this is done before anybody has trusted the file. What dotenv does
    itself takes minutes for many variables, and all memory for some that double each other.

    Raises:
        UnicodeDecodeError: It is not UTF-8.
        OSError: Its values are larger than 1 MiB.
    """
    from dotenv.main import DotEnv  # noqa: PLC0415 - most servers have no such file

    parsed = DotEnv(None, stream=StringIO(content.decode()), interpolate=False).parse()
    return _filled_in(parsed)


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
    """Return both mappings in one: ``above`` wins, and what is in objects is added to them.

    A text where an object belongs stays, so that it is refused and not hidden.
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
    for variable in sorted(source):  # an object before its parts, which are added to it
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
            return  # and nothing can be part of it
        target = inner
    target[path[-1]] = _decoded(text) if len(path) < 3 else text


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
