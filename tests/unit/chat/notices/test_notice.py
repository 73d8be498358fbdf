"""Names of what people are told of: texts of identifiers, tried six times in an hour."""

import msgspec
import pytest

from chat.notices.notice import TRIES, Notice

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
