import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.context.window import Decision, decide, fit, record_decision, safe_limit
from sessions_app.session import WindowConfig

ONGOING = {
    "dynamic_enabled": True,
    "manual_override": False,
    "current_window": 8192,
    "model_changed": False,
    "max_context": 40960,
    "usage_tokens": 1000,
}


def choose(**changes: object) -> Decision:
    return decide(**{**ONGOING, **changes})


def test_the_first_window_is_8192_or_the_safe_limit():
    assert choose(current_window=None) == Decision(window=8192, reason="initial_setup")
    assert choose(current_window=None, max_context=4096).window == safe_limit(4096) == 3686


def test_a_window_with_half_its_usage_to_spare_stays():
    assert choose() == Decision(window=8192, reason="no_adjustment")


def test_a_window_grows_by_a_power_of_two_and_ends_at_the_safe_limit():
    assert choose(usage_tokens=6000) == Decision(window=16384, reason="usage_threshold")
    assert choose(usage_tokens=30000).window == safe_limit(40960)


def test_a_window_never_shrinks_within_a_model():
    assert choose(current_window=32768).window == 32768


def test_another_model_starts_anew():
    assert choose(current_window=32768, model_changed=True, max_context=4096) == Decision(
        window=3686, reason="model_change"
    )


def test_a_window_set_by_hand_stays():
    assert choose(manual_override=True, current_window=2048, usage_tokens=9000) == Decision(
        window=2048, reason="manual_override"
    )


def test_a_window_set_by_hand_for_a_larger_model_is_cut_to_what_this_one_holds():
    by_hand = choose(manual_override=True, current_window=32768, max_context=8192)
    assert by_hand == Decision(window=8192, reason="manual_override")
    unknown = choose(manual_override=True, current_window=32768, max_context=None)
    assert unknown.window == 32768


def test_nothing_is_sent_when_the_window_is_neither_dynamic_nor_set():
    assert choose(dynamic_enabled=False).window is None


@given(st.integers(0, 10**7), st.integers(1, 10**7), st.none() | st.integers(1, 10**7))
def test_the_window_never_passes_the_safe_limit_unless_it_was_there(usage, maximum, current):
    chosen = choose(usage_tokens=usage, max_context=maximum, current_window=current).window
    assert chosen is not None
    assert 1 <= chosen <= max(safe_limit(maximum), current or 0)


@given(st.integers(1, 10**7), st.integers(1, 10**7))
def test_a_step_holds_what_is_needed_or_is_the_limit(needed, limit):
    assert fit(needed, limit) >= min(needed, limit)


@pytest.mark.parametrize("reason", ["initial_setup", "usage_threshold", "model_change"])
def test_a_change_is_noted_in_the_session(reason):
    config = record_decision(
        WindowConfig(), Decision(window=8192, reason=reason), model="m", now="t"
    )
    assert (config.current_window, config.last_adjustment) == (8192, reason)
    assert len(config.adjustment_history) == 1
    same = record_decision(
        config, Decision(window=8192, reason="no_adjustment"), model="m", now="t"
    )
    assert same == config
