"""Checks values against JSON Schemas of others, each in a short-lived process.

A schema of a few lines can take hours, gigabytes, or the whole stack, and no library lets other
threads run while it checks. Such a process ends itself, and never opens other documents
(docs/decisions/0117).
"""

import hashlib
import json
import logging
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from sessions_app.short_process import answer_of, limit_resources

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

logger = logging.getLogger(__name__)

MAX_CHARS = 300
"""The longest path, and the longest words, of a fault."""


class Fault(NamedTuple):
    """Says what of a value does not fit.

    Attributes:
        path: The place within the value, with dots: ``rows.3.name``; empty for the value itself.
        words: What the schema wants there. They contain no part of the value, unless asked to.
    """

    path: str
    words: str


def find_fault(
    value: Any, schema: Mapping[str, Any], *, unchecked: Collection[str] = ()
) -> Fault | None:
    """Return what does not fit the schema first, as far as it is known; see ``find_faults``."""
    faults = find_faults(value, schema, unchecked=unchecked)
    return faults[0] if faults else None


def find_faults(
    value: Any,
    schema: Mapping[str, Any],
    *,
    unchecked: Collection[str] = (),
    most: int = 1,
    shows_values: bool = False,
) -> Sequence[Fault] | None:
    """Return what does not fit the schema. Blocks, at most for ``SECONDS``; not if asked again.

    Returns None if nothing is known of the value: the schema is invalid, refers to other documents
    or takes too long.

    Args:
        value: The value.
        schema: The schema.
        unchecked: The names of properties of the value whose faults don't count.
        most: How many faults are returned.
        shows_values: Whether the words may contain parts of the value.
    """
    asked = {"value": value, "unchecked": sorted(unchecked), "most": most, "shows": shows_values}
    return _answer(schema, asked)


def find_schema_fault(schema: Mapping[str, Any]) -> Fault | None:
    """Return why nothing can be checked against a schema; blocks as ``find_faults`` does."""
    faults = _answer(schema, None)
    if faults is None:
        return Fault("", "it takes too long to check")
    return faults[0] if faults else None


def _answer(schema: Mapping[str, Any], asked: Mapping[str, Any] | None) -> Sequence[Fault] | None:
    """Return the faults; None if they are not known."""
    try:
        question = json.dumps([schema, asked]).encode()
        known = _answers(hashlib.sha256(question).digest())
        if not known:
            known.append(_checked(question))
        return known[0]
    except (OSError, RecursionError, TypeError, ValueError) as error:
        logger.warning("A value could not be checked against its schema: %s", type(error).__name__)
        return None


@lru_cache(maxsize=4_000)  # a request decides about a thousand calls at most
def _answers(digest: bytes) -> list[Sequence[Fault] | None]:  # noqa: ARG001 - the cache's key
    return []


def _checked(question: bytes) -> Sequence[Fault] | None:
    try:
        faults = json.loads(answer_of(__name__, question))
    except subprocess.SubprocessError as error:
        logger.warning("A value could not be checked against its schema: %s", type(error).__name__)
        return None
    return [Fault(*fault) for fault in faults]


def main() -> None:
    """Check the schema, or the value, of standard input, and print the faults as JSON."""
    from jsonschema_rs import ValidationError, validator_for  # noqa: PLC0415 - in this process

    limit_resources()
    schema, asked = json.load(sys.stdin.buffer)
    mask = None if asked is None or asked["shows"] else "it"
    try:
        validator = validator_for(schema, offline=True, mask=mask, validate_formats=False)
    except ValidationError as error:
        if asked is not None:
            raise
        json.dump([_fault_of(error)], sys.stdout)
        return
    if asked is None:
        json.dump([], sys.stdout)
        return
    unchecked = {*asked["unchecked"]}
    errors = validator.iter_errors(asked["value"])
    counting = (error for error in errors if not {*error.instance_path[:1]} & unchecked)
    json.dump([_fault_of(error) for error in islice(counting, asked["most"])], sys.stdout)


def _fault_of(error: "ValidationError") -> Fault:
    """Name the fault of an alternative rather than all alternatives, if one went further."""
    while branches := getattr(error.kind, "context", None):
        inner = max(
            (fault for branch in branches for fault in branch),
            key=lambda fault: len(fault.instance_path),
        )
        if len(inner.instance_path) <= len(error.instance_path):
            break
        error = inner
    path = ".".join(map(str, error.instance_path))
    return Fault(_shortened(path), _shortened(error.message))


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}..."
