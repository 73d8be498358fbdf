"""Messages of which a run is read later: whoever uses them sees no difference."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.context_state import digest_of
from sessions_app.messages import Message, UserMessage
from sessions_app.partly_read import (
    PartlyRead,
    Unread,
    as_far_as_read,
    as_value,
    followed_by,
    shown,
)

NOW = "2026-11-21T10:00:00.000000+00:00"


def say(number: int, *, hidden: bool = False) -> Message:
    return UserMessage(
        content=f"text {number}", message_id=f"m{number}", timestamp=NOW, hidden=hidden or None
    )


def partly(whole: Sequence[Message], start: int, stop: int) -> PartlyRead:
    run = whole[start:stop]
    unread = Unread(
        len(run),
        lambda: b"a file",
        lambda _: run,
        commas=(1, 2),
        covers=(whole[0].message_id, stop),
        digest=digest_of(whole[:stop]),
    )
    return PartlyRead(tuple(whole[:start]), unread, tuple(whole[stop:]))


@st.composite
def read_in_part(draw: st.DrawFn) -> tuple[tuple[Message, ...], PartlyRead]:
    whole = tuple(map(say, range(draw(st.integers(min_value=2, max_value=12)))))
    start = draw(st.integers(min_value=1, max_value=len(whole) - 1))
    stop = draw(st.integers(min_value=start, max_value=len(whole)))
    return whole, partly(whole, start, stop)


places = st.none() | st.integers(min_value=-14, max_value=14)


@given(read_in_part(), places, places, st.sampled_from([None, 1, 2, -1]))
def test_they_are_cut_as_a_tuple_is(
    both: tuple[tuple[Message, ...], PartlyRead], start: int | None, stop: int | None, step: int
) -> None:
    whole, messages = both
    cut = slice(start, stop, step)
    assert messages[cut] == whole[cut]
    assert whole[cut] == messages[cut]


@given(read_in_part())
def test_they_are_counted_found_and_gone_through_as_a_tuple_is(
    both: tuple[tuple[Message, ...], PartlyRead],
) -> None:
    whole, messages = both
    assert len(messages) == len(whole)
    assert tuple(messages) == whole == messages.whole()
    assert tuple(reversed(messages)) == whole[::-1]
    for at in range(-len(whole), len(whole)):
        assert messages[at] is whole[at]
    with pytest.raises(IndexError):
        messages[len(whole)]
    assert messages != whole[:-1]
    assert messages == as_value(messages)
    assert followed_by(messages, whole[:2]) == followed_by(whole, whole[:2])


class NeverRead(Unread):
    """A run that nobody may ask for."""

    def messages(self) -> Sequence[Message]:
        raise AssertionError("a message in the middle was read")


@pytest.fixture
def messages() -> PartlyRead:
    """Ten messages of which the middle six must not be read, and the first nine are dropped."""
    ten = [*map(say, range(10))]
    unread = NeverRead(6, bytes, lambda _: [], commas=(1, 2), covers=("m0", 9), digest="the digest")
    return PartlyRead((ten[0], ten[1]), unread, (ten[8], ten[9]))


def test_the_ends_are_had_without_the_middle(messages: PartlyRead) -> None:
    assert [messages[0].content, messages[-1].content] == ["text 0", "text 9"]
    assert [message.message_id for message in messages[8:]] == ["m8", "m9"]
    assert [message.message_id for message in messages[:2]] == ["m0", "m1"]
    assert [message.message_id for message in as_far_as_read(messages)] == ["m0", "m1", "m8", "m9"]
    longer = followed_by(messages, [say(10)])
    assert (len(longer), longer[-1].message_id) == (11, "m10")
    assert longer[:10] == messages
    assert next(iter(messages)).message_id == "m0"
    assert next(reversed(messages)).message_id == "m9"


def test_how_many_are_the_same_is_told_without_the_middle(messages: PartlyRead) -> None:
    assert messages.followed_by([say(10)]).in_common(messages) == 10
    other = PartlyRead(messages.head, messages.unread, (messages[8], say(9)))
    assert other.in_common(messages) == 9
    assert messages.in_common(list(messages.read())) is None
    assert PartlyRead((say(0), say(1)), messages.unread, messages.tail).in_common(messages) is None


def test_the_digest_is_known_of_the_span_that_was_left_out_alone(messages: PartlyRead) -> None:
    assert messages.digest_of(range(9)) == "the digest"
    assert messages.digest_of(range(8)) is None
    assert messages.digest_of(range(1, 10)) is None
    assert messages.digest_of(range(8, 10)) is None


def test_hidden_ones_at_the_ends_are_left_out(messages: PartlyRead) -> None:
    assert shown(messages) is messages
    hiding = messages.followed_by([say(10, hidden=True), say(11)])
    left = shown(hiding)
    assert (len(left), left[-1].message_id, left[-2].message_id) == (11, "m11", "m9")


def test_the_middle_is_read_once() -> None:
    readings: list[bytes] = []

    def read(file: bytes) -> Sequence[Message]:
        readings.append(file)
        return [say(1)]

    unread = Unread(1, lambda: b"in memory", read, commas=(1, 2), covers=("m0", 1), digest="")
    messages = PartlyRead((say(0),), unread, (say(2),))
    unread.leave_to(lambda: b"on the disk")
    assert not unread.is_read
    assert [*messages] == [*messages] == [say(0), say(1), say(2)]
    assert unread.is_read
    assert readings == [b"on the disk"]
