"""Halves of surrogate pairs in values of sessions."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.messages import ToolCall
from sessions_app.surrogates import (
    join_surrogates,
    mend_call,
    mend_call_id,
    mend_escapes,
    mend_json,
)

HALVES = st.text(st.sampled_from("a😀\ud83d\ude00\udfff\ud800é"), max_size=8)


@given(HALVES)
def test_joined_text_can_be_written_and_is_joined_for_good(text: str) -> None:
    joined = join_surrogates(text)
    joined.encode()
    assert join_surrogates(joined) == joined
    assert joined.replace("\ufffd", "") in text.encode("utf-16", "surrogatepass").decode(
        "utf-16", "ignore"
    )


def test_keys_that_become_the_same_keep_their_values() -> None:
    mended = mend_json({chr(0xD800): 1, chr(0xD801): 2, "a": (["\udc00"], None, True)})
    assert mended == {"\ufffd": 1, "\ufffd\ufffd": 2, "a": [["\ufffd"], None, True]}


def test_keys_are_told_apart_whatever_others_there_are() -> None:
    keys = ["x\ufffd\ufffd2", "x\ud800", "x\ud801", "x\ud802", "x\ufffd", "x\ufffd\ufffd"]
    mended = mend_json({key: number for number, key in enumerate(keys)})
    assert sorted(mended.values()) == list(range(len(keys)))
    json.dumps(mended, ensure_ascii=False).encode()


@pytest.mark.timeout(30)  # took the cube of the number: hours for these
def test_many_keys_that_become_the_same_are_told_apart_at_once() -> None:
    halves = [chr(number) for number in range(0xD800, 0xDC00)]
    value = {first + second: None for first in halves[:100] for second in halves}
    mended = mend_json(value)
    assert len(mended) == len(value)
    assert max(map(len, mended)) < 10


def test_ids_that_differed_differ_still() -> None:
    first, second = (
        mend_call(ToolCall(id=half, name="f", arguments={})).id for half in ("\ud800", "\ud801")
    )
    assert first != second
    assert mend_call_id("\ud801") == second


def test_what_a_vendor_signed_is_mended_too() -> None:
    state = {"provider_state": {"thinking": [{"content": "\ud83d", "signature": "s\udc00"}]}}
    call = mend_call(ToolCall(id="1", name="f", arguments={}, extra=state))
    assert msgspec.json.decode(msgspec.json.encode(call.extra)) == {
        "provider_state": {"thinking": [{"content": "\ufffd", "signature": "s\ufffd"}]}
    }


def test_what_is_whole_stays_the_same_object() -> None:
    call = ToolCall(id="1", name="f", arguments={"a": "😀", "deep": [{}], "big": 2**70})
    assert mend_call(call) is call


@given(st.text(st.sampled_from('a😀\ud83d\ude00\udfff\\u"/nud83') | st.characters(), max_size=12))
def test_mended_json_says_the_same_but_for_lone_halves(text: str) -> None:
    escaped = json.dumps({text: text}).encode()
    mended = mend_escapes(escaped)
    assert len(mended) == len(escaped)
    assert msgspec.json.decode(mended) == mend_json({text: text})
    plain = json.dumps({text: text}, ensure_ascii=False).encode("utf-8", "replace")
    assert mend_escapes(plain) == plain
