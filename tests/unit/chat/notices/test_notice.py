"""Names of what people are told of: texts of identifiers, tried six times in an hour."""

import msgspec
import pytest

from chat.notices.notice import TRIES, Notice
from mochi_project.configuration.loading import load_settings
from mochi_project.configuration.setting_errors import ConfigurationError

NOTICE = Notice(
    event="turn.failed", owner="anna", session_id="s", subject="t", since=100, code="MODEL_ERROR"
)


@pytest.mark.parametrize("notice", [NOTICE, msgspec.structs.replace(NOTICE, code="")])
def test_a_notice_is_read_from_its_text(notice):
    assert Notice.read(str(notice)) == notice


@pytest.mark.parametrize(
    "text",
    ["", "a1b2c3d4e5", "[]", '["turn.other","a","b","c",1,""]', '["turn.done","a","b","c","1"]'],
)
def test_another_text_is_none(text):
    with pytest.raises(msgspec.MsgspecError):
        Notice.read(text)


def test_there_are_six_tries_within_an_hour():
    at, tries = 0.5, 1
    while (following := NOTICE.next_try_after(at)) is not None:
        at, tries = following + 1, tries + 1
    assert (tries, len(TRIES), TRIES[-1]) == (6, 6, 3600)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "MOCHI_WEBHOOK_SECRET must be set with MOCHI_WEBHOOK_URL"),
        ({"SECRET": "whsec_short"}, "MOCHI_WEBHOOK_SECRET must be set"),
        ({"SECRET": f"whsec_{'!' * 40}"}, "MOCHI_WEBHOOK_SECRET must be set"),
        ({"FORMAT": "telegram"}, "MOCHI_WEBHOOK_FORMAT telegram needs ?chat_id="),
        ({"FORMAT": "ntfy", "URL": "https://ntfy.sh/"}, "MOCHI_WEBHOOK_FORMAT ntfy needs a topic"),
        ({"FORMAT": "smoke"}, "MOCHI_WEBHOOK_FORMAT"),
        ({"EVENTS": "approval.asked,tea.done"}, "MOCHI_WEBHOOK_EVENTS"),
    ],
)
def test_settings_that_can_not_work_stop_the_start(monkeypatch, values, said):
    for name, value in ({"URL": "https://x.example/s3cret"} | values).items():
        monkeypatch.setenv(f"MOCHI_WEBHOOK_{name}", value)
    with pytest.raises(ConfigurationError) as caught:
        load_settings()
    assert str(caught.value).startswith(said)
    assert "s3cret" not in str(caught.value)


def test_neither_address_nor_secret_are_shown(monkeypatch):
    monkeypatch.setenv("MOCHI_WEBHOOK_URL", "https://x.example/s3cret")
    monkeypatch.setenv("MOCHI_WEBHOOK_SECRET", f"whsec_{'A' * 32}")
    settings = load_settings()
    assert settings.webhook_events == ["approval.asked"]
    assert "s3cret" not in repr(settings)
    assert "AAAA" not in repr(settings)
