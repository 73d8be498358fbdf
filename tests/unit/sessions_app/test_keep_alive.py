"""How long a model stays loaded, as clients may say it."""

import pytest

from sessions_app.keep_alive import require_keep_alive


@pytest.mark.parametrize(
    "value", [None, 0, -1, 300, 1.5, "30m", "-1m", "1h30m", "1.5h", "500ms", "10us", "10µs", "0s"]
)
def test_seconds_and_durations_are_taken(value):
    assert require_keep_alive(value) == value


@pytest.mark.parametrize(
    "value", [True, False, "", "300", "m", "30 m", "30m\n", "1d", "+5m", "٣m", "forever", [], {}]
)
def test_anything_else_is_refused(value):
    with pytest.raises(ValueError, match="keep_alive must be seconds, or a duration like 30m"):
        require_keep_alive(value)
