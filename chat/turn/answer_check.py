"""Checks an answer against the schema that it has to fit (docs/decisions/0127, 0144)."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from sessions_app.json_schema import Fault, find_faults

MOST_FAULTS = 10
_NOT_JSON = Fault("", "it is not JSON")


def check_answer(
    text: str, schema: Mapping[str, Any]
) -> tuple[msgspec.Raw | UnsetType, Sequence[Fault]]:
    """Return the JSON of an answer that fits, on one line, or what does not fit. Blocks.

    Returns neither if it is not known whether the answer fits.
    """
    data = text.encode()
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return UNSET, [_NOT_JSON]
    faults = find_faults(value, schema, most=MOST_FAULTS, shows_values=True)
    fits = faults is not None and not faults
    return (msgspec.Raw(msgspec.json.format(data, indent=-1)) if fits else UNSET), faults or ()


def described(fault: Fault) -> dict[str, str]:
    """Return a fault for programs, its place as a JSON path."""
    path = f"$.{fault.path}" if fault.path else "$"
    return {"path": path, "message": fault.words.replace('"', "'")}


def correction(fault: Fault) -> str:
    """Return what the model is told about an answer that does not fit."""
    place = described(fault)
    return (
        f"Your answer does not fit the schema: at {place['path']}: {place['message']}. "
        "Answer with the corrected JSON alone."
    )
