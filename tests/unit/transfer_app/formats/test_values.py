"""Values of exports: whatever they are, they are taken for what they should be."""

import math
from typing import Any

import pytest

from transfer_app.formats.values import as_arguments, as_time, first_text, joined, objects


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (1763800000.25, "2025-11-22T08:26:40.250000+00:00"),
        (1763800000250, "2025-11-22T08:26:40.250000+00:00"),
        ("2026-03-01T08:00:00Z", "2026-03-01T08:00:00.000000+00:00"),
        ("2026-03-01T08:00:00+02:00", "2026-03-01T06:00:00.000000+00:00"),
        ("2026-03-01T08:00:00", "2026-03-01T08:00:00.000000+00:00"),
        *((odd, None) for odd in ("", "soon", None, True, 0, -5, math.nan, math.inf, 10**400, [])),
        ("0001-01-01T00:00:00+14:00", None),
    ],
)
def test_times_are_utc_or_none(given: Any, expected: str | None) -> None:
    assert as_time(given) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        ("print(1)", {"input": "print(1)"}),
        ("[1]", {"input": "[1]"}),
        ("[" * 10_000, {"input": "[" * 10_000}),
        (None, {}),
    ],
)
def test_arguments_are_an_object(given: Any, expected: object) -> None:
    assert as_arguments(given) == expected


def test_texts_and_objects_are_picked() -> None:
    assert first_text(None, " ", "a", "b") == "a"
    assert joined("a", " ", "b") == "a\n\nb"
    assert objects([{"a": 1}, 2, None]) == [{"a": 1}]
