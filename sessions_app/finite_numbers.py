"""Reads numbers that JSON lacks (``NaN``, ``Infinity``, ``1e999``) as text. Pure.

Python's ``json`` reads and writes them, so some servers and models send them; no other parser reads
what would be made of them.
"""

import math
from collections.abc import Mapping
from typing import Any


def finite(value: Any) -> Any:
    """Return a JSON value whose ``NaN`` and infinite numbers are text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else _words_of(value)
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def finite_float(text: str) -> float | str:
    """Return the number that JSON text stands for, or the text if it is beyond a float."""
    number = float(text)
    return number if math.isfinite(number) else text


def _words_of(number: float) -> str:
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


AS_TEXT: Mapping[str, Any] = {"parse_constant": str, "parse_float": finite_float}
"""The arguments of ``json.loads`` that read such numbers as text."""
