"""Changes of a session's settings."""

from collections.abc import Callable

import pytest
from msgspec import UNSET

from sessions_app.errors import ValidationFailed
from sessions_app.session import Session
from sessions_app.session_settings import (
    change_settings,
    follow_usage,
    given_settings,
    override_window,
)

LATER = "2026-11-21T11:00:00.000000+00:00"

MakeSession = Callable[..., Session]


def test_what_is_unset_is_not_given(make_session: MakeSession) -> None:
    given = given_settings({"model": UNSET, "options": None})
    assert given == {"options": None}
    session = make_session()
    assert change_settings(session, given_settings({"model": UNSET}), now=LATER) is session


def test_a_setting_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="'created_at'"):
        given_settings({"created_at": LATER})  # type: ignore[typeddict-unknown-key]


@pytest.mark.parametrize("changes", [{"model": " "}, {"context_window": 0}])
def test_a_setting_that_makes_no_sense_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationFailed):
        given_settings(changes)  # type: ignore[arg-type]


def test_a_window_set_by_hand_stays_until_it_may_grow_again(make_session: MakeSession) -> None:
    session = make_session()
    for tokens in range(1000, 1015):
        session = override_window(session, tokens, now=LATER)
    assert session.window.current_window == 1014
    assert session.window.manual_override
    assert len(session.window.adjustment_history) == 10
    session = follow_usage(session, now=LATER)
    assert session.window.current_window is None
    assert session.window.dynamic_enabled
    assert not session.window.manual_override


def test_labels_keep_a_sessions_place_in_the_list_and_tell_when_they_were_set(
    make_session: MakeSession,
) -> None:
    session = make_session()
    for labels in ({"title": "Mine"}, {"metadata": {"a": 1}}, {"pinned": False}):
        changed = change_settings(session, given_settings(labels), now=LATER).metadata  # type: ignore[arg-type]
        assert changed.labels_changed_at == LATER
        assert changed.updated_at == session.metadata.updated_at
    other = change_settings(session, given_settings({"model": "other"}), now=LATER)
    assert other.metadata.labels_changed_at is None


def test_a_title_is_one_line_and_a_persons(make_session: MakeSession) -> None:
    session = make_session()
    changed = change_settings(session, given_settings({"title": " The\n sea "}), now=LATER)
    assert (changed.metadata.title, changed.metadata.titled_by) == ("The sea", "person")
    reset = change_settings(changed, given_settings({"title": None}), now=LATER)
    assert (reset.metadata.title, reset.metadata.titled_by) == (None, None)


def test_a_session_that_is_put_elsewhere_stays_where_it_is_in_time(
    make_session: MakeSession,
) -> None:
    session = make_session()
    given = given_settings({"pinned": True, "archived": True, "metadata": {"a": [1]}})
    changed = change_settings(session, given, now=LATER).metadata
    assert changed.updated_at == session.metadata.updated_at
    assert (changed.pinned, changed.archived, changed.metadata) == (True, True, {"a": [1]})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"title": " \n"}, "title must not be blank"),
        ({"title": "x" * 201}, "at most 200"),
        ({"metadata": dict.fromkeys(map(str, range(17)))}, "at most 16 keys"),
        ({"metadata": {"a": "x" * 4090}}, "at most 4,096 bytes"),
        ({"metadata": {"a": object()}}, "must be JSON"),
    ],
)
def test_labels_that_are_too_much_are_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationFailed, match=said):
        given_settings(changes)  # type: ignore[arg-type]
