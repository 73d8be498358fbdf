"""Numbers that Python reads and writes, and JSON lacks."""

import json
import math

from sessions_app.finite_numbers import AS_TEXT, finite


def test_values_without_them_stay_as_they_are():
    value = {"a": [1, 1.5, True, None, "NaN"], "b": {"c": 10**400}}
    assert finite(value) == value == json.loads(json.dumps(value), **AS_TEXT)


def test_they_become_text():
    value = {"a": (math.nan, [math.inf]), "b": {"c": -math.inf}}
    assert finite(value) == {"a": ["NaN", ["Infinity"]], "b": {"c": "-Infinity"}}
    text = "[NaN, Infinity, -Infinity, 1e999, -1e999, 1e308]"
    assert json.loads(text, **AS_TEXT) == ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", 1e308]
