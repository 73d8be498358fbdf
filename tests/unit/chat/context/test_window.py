import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.context.window import (
    WindowChoice,
    choose_window,
    fit,
    follow_loaded,
    grow,
    limit_of,
    record_choice,
    safe_limit,
)
from mochi_server.context import DynamicContextWindowService
from models_app.window_sizes import LoadedWindow
from sessions_app.session import Session, SessionMetadata, WindowConfig

CONFIG = {"dynamic_enabled": True, "manual_override": False, "current_window": 8192}
ONGOING = {"model_changed": False, "max_context": 40960, "usage_tokens": 1000}


def choose(**changes: object) -> WindowChoice:
    config = {name: changes.pop(name, value) for name, value in CONFIG.items()}
    return choose_window(WindowConfig(**config), **{**ONGOING, **changes})


def test_the_first_window_is_8192_or_the_safe_limit():
    assert choose(current_window=None) == WindowChoice(window=8192, reason="initial_setup")
    assert choose(current_window=None, max_context=4096).window == safe_limit(4096) == 3686


def test_a_window_with_half_its_usage_to_spare_stays():
    assert choose() == WindowChoice(window=8192, reason="no_adjustment")


def test_a_window_grows_by_a_power_of_two_and_ends_at_the_safe_limit():
    assert choose(usage_tokens=6000) == WindowChoice(window=16384, reason="usage_threshold")
    assert choose(usage_tokens=30000).window == safe_limit(40960)


def test_a_window_never_shrinks_within_a_model():
    assert choose(current_window=32768).window == 32768


def test_another_model_starts_anew():
    assert choose(current_window=32768, model_changed=True, max_context=4096) == WindowChoice(
        window=3686, reason="model_change"
    )


def test_a_window_set_by_hand_stays():
    assert choose(manual_override=True, current_window=2048, usage_tokens=9000) == WindowChoice(
        window=2048, reason="manual_override"
    )


def test_a_window_set_by_hand_for_a_larger_model_is_cut_to_what_this_one_holds():
    by_hand = choose(manual_override=True, current_window=32768, max_context=8192)
    assert by_hand == WindowChoice(window=8192, reason="manual_override")
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
    config = record_choice(
        WindowConfig(), WindowChoice(window=8192, reason=reason), model="m", now="t"
    )
    assert (config.current_window, config.last_adjustment) == (8192, reason)
    assert len(config.adjustment_history) == 1
    same = record_choice(
        config, WindowChoice(window=8192, reason="no_adjustment"), model="m", now="t"
    )
    assert same == config


@pytest.mark.parametrize(("first", "window"), [(2048, 2048), (12_000, 12_000), (100_000, 36_864)])
def test_the_first_window_is_the_servers_setting_up_to_the_safe_limit(first, window):
    assert choose(current_window=None, first_window=first).window == window


def test_a_first_request_that_does_not_fit_the_setting_gets_the_next_step():
    chosen = choose(current_window=None, first_window=2048, usage_tokens=2000)
    assert chosen == WindowChoice(window=8192, reason="initial_setup")


def test_a_small_window_stays_as_long_as_it_holds_the_request():
    assert choose(current_window=4096) == WindowChoice(window=4096, reason="no_adjustment")
    assert choose(current_window=4096, usage_tokens=3000).window == 8192


# The window of a loaded model


def follow(choice, window, *, default=None, usage_tokens=1000, max_context=40960):
    loaded = LoadedWindow(window=window, default=default)
    return follow_loaded(choice, loaded, max_context=max_context, usage_tokens=usage_tokens)


STEADY = WindowChoice(window=8192, reason="no_adjustment")


@pytest.mark.parametrize("loaded", [1500, 4096, 16384, 40960])
def test_a_loaded_window_that_holds_the_request_is_asked_for_exactly(loaded):
    chosen = follow(STEADY, loaded)
    assert chosen == WindowChoice(window=loaded, reason="loaded")
    assert grow(chosen, max_context=40960, usage_tokens=1000) is chosen


def test_a_loaded_window_that_the_session_has_is_no_change():
    assert follow(STEADY, 8192) is STEADY


@pytest.mark.parametrize(
    ("loaded", "tokens", "window"),
    [(4096, 3000, 8192), (8192, 6000, 16384), (8192, 30_000, 36_864), (36_864, 30_000, 36_864)],
)
def test_a_loaded_window_that_is_too_small_grows_to_a_step(loaded, tokens, window):
    assert follow(STEADY, loaded, usage_tokens=tokens).window == window


def test_a_loaded_window_beyond_the_safe_limit_is_not_made_smaller():
    assert follow(STEADY, 40_960, usage_tokens=36_000) == WindowChoice(
        window=40_960, reason="loaded"
    )
    assert follow(STEADY, 16_384, usage_tokens=20_000, max_context=None).window == 16_384


def test_a_window_set_by_hand_and_one_that_is_left_alone_follow_no_loaded_one():
    for choice in (
        WindowChoice(window=2048, reason="manual_override"),
        WindowChoice(window=None, reason="no_adjustment"),
    ):
        assert follow(choice, 16384) is choice
        assert grow(choice, max_context=40960, usage_tokens=20_000) is choice


def test_what_is_not_loaded_or_not_known_changes_nothing():
    assert follow(STEADY, None) is STEADY
    assert follow_loaded(STEADY, None, max_context=40960, usage_tokens=9000) is STEADY


def test_a_first_window_left_to_ollama_is_asked_for_only_where_its_default_is_too_small():
    left = choose(current_window=None, first_window=None)
    assert left == WindowChoice(window=None, reason="initial_setup", default=4096)
    assert choose(current_window=None, first_window=None, usage_tokens=3000).window == 8192
    assert grow(left, max_context=40960, usage_tokens=3000).window == 8192

    roomy = follow(left, None, default=32_768, usage_tokens=20_000)
    assert (roomy.window, roomy.default) == (None, 32_768)
    assert grow(roomy, max_context=100_000, usage_tokens=30_000).window == 65_536
    assert follow(left, 32_768, default=32_768).window == 32_768


def test_a_session_with_a_window_keeps_it_where_the_first_is_left_to_ollama():
    assert choose(first_window=None).window == 8192
    assert choose(first_window=None, model_changed=True).window is None


# As a library

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
    assert decision == WindowChoice(window=window, reason=reason)


def test_half_of_the_usage_is_left_free_until_the_safe_limit():
    for usage in (100, 5461, 5462, 20_000, 30_000):
        window = SERVICE.calculate(WindowConfig(), max_context=40960, usage_tokens=usage).window
        assert window >= min(usage * 1.5 - 1, 36864)


def test_the_last_ten_changes_are_written_down():
    found = session()
    for number in range(12):
        decision = WindowChoice(window=8192 + number, reason="usage_threshold")
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
    steady = WindowChoice(window=16384, reason="no_adjustment")
    assert grow(steady, max_context=40960, usage_tokens=100) is steady
    assert grow(steady, max_context=40960, usage_tokens=12_000).window == 32768


def test_more_than_the_model_can_hold_is_no_window_of_one_request():
    assert follow(STEADY, 4 * STEADY.window, max_context=2 * STEADY.window) == STEADY
