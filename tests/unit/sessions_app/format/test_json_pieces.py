"""Documents encoded bit by bit are, byte for byte, what they are when encoded whole."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.format.codec import to_json
from sessions_app.format.json_pieces import (
    MOST_ITEMS,
    PIECE_BYTES,
    LongList,
    in_pieces,
    json_pieces,
)

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def many(items: list[Any]) -> LongList:
    return LongList(items, lambda item: item, lambda _: PIECE_BYTES // 2)


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=3), st.lists(VALUES), st.lists(VALUES))
@pytest.mark.parametrize("readable", [False, True])
def test_pieces_are_the_whole(
    readable: bool, document: dict[str, Any], first: list[Any], last: list[Any]
) -> None:
    encode = partial(to_json, readable=readable)
    pieces = json_pieces({"first": many(first), **document, "\0last": many(last)}, encode)
    assert b"".join(pieces) == encode({"first": first, **document, "\0last": last})


def test_an_integer_beyond_64_bits_stands_among_others() -> None:
    items = [1, 2**70, {"a": 2**80}]
    encode = partial(to_json, readable=True)
    assert b"".join(json_pieces({"items": many(items)}, encode)) == encode({"items": items})


def test_no_piece_is_much_larger_than_its_largest_item() -> None:
    texts = ["x" * 1000] * 1000 + ["y" * 500_000] + ["z"] * 5000
    pieces = list(json_pieces({"texts": LongList(texts, str, len)}, to_json))
    assert sorted(map(len, pieces))[-2:] == pytest.approx([PIECE_BYTES, 500_000], rel=0.05)


def test_items_that_claim_to_be_nothing_still_come_in_pieces() -> None:
    assert max(map(len, in_pieces(range(10_000), lambda _: 0))) == MOST_ITEMS
