"""The context window as a library: five reasons, and what is written down of each change."""

import pytest

from chat.context.window import Decision, grow
from chat.context.window_service import limit_of
from mochi_server.context import DynamicContextWindowService
from sessions_app.session import Session, SessionMetadata, WindowConfig

SERVICE = DynamicContextWindowService()


def session(**window):
    metadata = SessionMetadata(
        session_id="0123456789",
        model="m",
        created_at="t",
        updated_at="t",
        context_window_config=WindowConfig(**window),
    )
    return Session(metadata=metadata)


@pytest.mark.parametrize(
    ("config", "how", "window", "reason"),
    [
        ({}, {}, 8192, "initial_setup"),
        ({"current_window": 8192}, {"usage_tokens": 6000}, 16384, "usage_threshold"),
        ({"current_window": 8192}, {"model_changed": True}, 8192, "model_change"),
        ({"current_window": 8192}, {"usage_tokens": 100}, 8192, "no_adjustment"),
        (
            {"current_window": 3000, "manual_override": True},
            {"usage_tokens": 6000},
            3000,
            "manual_override",
        ),
        ({"dynamic_enabled": False}, {}, None, "no_adjustment"),
    ],
)
def test_each_reason(config, how, window, reason):
    decision = SERVICE.calculate(WindowConfig(**config), max_context=40960, **how)
    assert decision == Decision(window=window, reason=reason)


def test_half_of_the_usage_is_left_free_until_the_safe_limit():
    for usage in (100, 5461, 5462, 20_000, 30_000):
        window = SERVICE.calculate(WindowConfig(), max_context=40960, usage_tokens=usage).window
        assert window >= min(usage * 1.5 - 1, 36864)


def test_the_last_ten_changes_are_written_down():
    found = session()
    for number in range(12):
        decision = Decision(window=8192 + number, reason="usage_threshold")
        found = SERVICE.record(found, decision, now=f"t{number}")

    history = found.window.adjustment_history
    assert len(history) == 10
    assert history[-1] == {
        "timestamp": "t11",
        "model": "m",
        "from_window": 8202,
        "to_window": 8203,
        "reason": "usage_threshold",
    }


def test_windows_stay_where_the_server_lets_none_grow():
    off = DynamicContextWindowService(enabled=False)
    assert off.calculate(WindowConfig(), max_context=40960).window is None


def test_the_limit_is_the_profiles_or_set_by_hand_or_nine_tenths_of_the_model():
    by_hand = WindowConfig(current_window=2000, manual_override=True)
    assert limit_of(by_hand, max_context=40960, context_limit=5000) == 5000
    assert limit_of(by_hand, max_context=40960) == 2000
    assert limit_of(WindowConfig(current_window=2000), max_context=40960) == 36864
    assert limit_of(WindowConfig(), max_context=None) is None


def test_no_limit_is_more_than_the_model_holds():
    by_hand = WindowConfig(current_window=40960, manual_override=True)
    assert limit_of(by_hand, max_context=8192) == 8192
    assert limit_of(by_hand, max_context=8192, context_limit=50_000) == 8192
    assert limit_of(by_hand, max_context=None) == 40960


def test_within_a_turn_a_window_only_grows():
    steady = Decision(window=16384, reason="no_adjustment")
    assert grow(steady, max_context=40960, usage_tokens=100) is steady
    assert grow(steady, max_context=40960, usage_tokens=12_000).window == 32768
