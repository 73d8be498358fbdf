"""Reads JSON files that a person wrote, and explains what is wrong with an entry."""

import os
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError, model_validator
from pydantic_core import ErrorDetails

from mochi_project.configuration.setting_errors import words_of
from sessions_app.decoding import NO_JSON, decode_as
from sessions_app.store.atomic import UnreadableFileError, read_regular

MOST_BYTES = 1 << 20
Entries = TypeVar("Entries")
Stamp = tuple[int, int, int] | None
_LONGEST_SHOWN = 50


class Entry(BaseModel, frozen=True):
    """An entry of such a file, or a part of one, that says which fields it may have."""

    @model_validator(mode="before")
    @classmethod
    def _has_known_fields(cls, value: Any) -> Any:
        for name in value if isinstance(value, dict) else ():
            if name not in cls.model_fields:
                fields = ", ".join(f"`{field}`" for field in cls.model_fields)
                raise ValueError(f"has no `{name[:_LONGEST_SHOWN]}`; fields are {fields}")
        return value


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


def read_entries(path: Path, kind: TypeAdapter[Entries]) -> Entries:
    """Read a file. Blocks.

    Args:
        path: The file.
        kind: The type of its content.

    Raises:
        FileNotFoundError: It does not exist.
        InvalidFileError: It can't be used.
    """
    name = path.name
    try:
        parsed = decode_as(read_regular(path, limit=MOST_BYTES), Any)
    except FileNotFoundError:
        raise
    except UnreadableFileError as error:
        raise InvalidFileError(f"{name} can't be read: {error.reason}.") from error
    except OSError as error:
        raise InvalidFileError(f"{name} can't be read: {error.strerror}.") from error
    except NO_JSON as error:
        raise InvalidFileError(f"{name} is not JSON: {error}.") from error
    try:
        return kind.validate_python(parsed)
    except ValidationError as error:
        raise InvalidFileError(f"{name}{_sentence(error.errors(include_url=False)[0])}.") from error


def _sentence(fault: ErrorDetails) -> str:
    """Return where a file is wrong, and how, as the end of a sentence."""
    entry, *fields = [part for part in fault["loc"] if part != "[key]"] or [""]
    at = f", entry {entry + 1}:" if isinstance(entry, int) else f", `{entry}`:" if entry else ""
    field = f" `{'.'.join(map(str, fields))}`" if fields else " it" if at else ""
    text = repr(fault["input"])
    shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
    if fault["type"] == "model_type":
        return f"{at}{field} must be an object (it is {shown})"
    said = "" if fault["type"] in {"missing", "value_error"} else f" (it is {shown})"
    return f"{at}{field} {words_of(fault)}{said}"
