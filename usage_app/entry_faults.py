"""Reads JSON files that a person wrote, and explains what is wrong with an entry."""

import os
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec

from sessions_app.decoding import NO_JSON, convert_to, decode_as
from sessions_app.store.atomic import UnreadableFileError, read_regular

MOST_BYTES = 1 << 20
Entries = TypeVar("Entries")
Stamp = tuple[int, int, int] | None
_LONGEST_SHOWN = 50
_KINDS = {Decimal: "a number", int: "a whole number", str: "a text"}


class InvalidFileError(ValueError):
    """A file that a person wrote can't be used; the message says why."""


def stamp_of(path: Path) -> Stamp:
    """Return what changes with a file; None if there is none."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    except OSError:
        return (0, 0, 0)  # reading it says why
    return status.st_ino, status.st_size, status.st_mtime_ns


def read_entries(path: Path, kind: type[Entries], explain: Callable[[Any], str | None]) -> Entries:
    """Read a file. Blocks.

    Args:
        path: The file.
        kind: The type of its content.
        explain: Returns a sentence about the first invalid entry of the parsed JSON.

    Raises:
        FileNotFoundError: It does not exist.
        InvalidFileError: It can't be used.
    """
    name = path.name
    try:
        data = read_regular(path, limit=MOST_BYTES)
    except FileNotFoundError:
        raise
    except UnreadableFileError as error:
        raise InvalidFileError(f"{name} can't be read: {error.reason}.") from error
    except OSError as error:
        raise InvalidFileError(f"{name} can't be read: {error.strerror}.") from error
    try:
        parsed = decode_as(data, Any)
    except NO_JSON as error:
        raise InvalidFileError(f"{name} is not JSON: {error}.") from error
    try:
        return decode_as(data, kind)
    except msgspec.ValidationError as error:
        raise InvalidFileError(explain(parsed) or f"{name}: {error}.") from error


def fault_in(entry: Any, kind: type[msgspec.Struct]) -> str | None:
    """Return what keeps an entry from being of a type, as part of a sentence; None if nothing does.

    Args:
        entry: The parsed JSON.
        kind: The type, without fields that have another name in JSON.
    """
    if not isinstance(entry, dict):
        return f"it is an object (it is {_quoted(entry)})"
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    for name in entry:
        if name not in fields:
            return f"there is no `{name[:_LONGEST_SHOWN]}`; fields are {_joined(fields, 'and')}"
    for name, field in fields.items():
        if name not in entry:
            if field.required:
                return f"`{name}` is missing"
        elif (fault := _fault_of_value(name, entry[name], field.type)) is not None:
            return fault
    return None


def _fault_of_value(name: str, value: Any, kind: Any) -> str | None:
    try:
        convert_to(value, kind)
    except msgspec.ValidationError as error:
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            inner = fault_in(value, kind)
            return f"`{name}`: {inner or error}"
        if get_origin(kind) is Literal:
            allowed = _joined(get_args(kind), "or")
        else:
            names = [words for each, words in _KINDS.items() if each in (kind, *get_args(kind))]
            allowed = names[0] if names else f"something else: {error}"
        return f"`{name}` is {allowed} (it is {_quoted(value)})"
    return None


def _joined(words: Iterable[str], last_by: str) -> str:
    *first, last = (f"`{word}`" for word in words)
    return f"{', '.join(first)} {last_by} {last}" if first else last


def _quoted(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
