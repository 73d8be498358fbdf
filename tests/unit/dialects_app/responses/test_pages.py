"""Pages of items, in both orders."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects_app.responses.errors import ItemNotFound
from dialects_app.responses.pages import page_of


@given(st.integers(0, 12), st.integers(1, 5), st.sampled_from(["asc", "desc"]))
def test_page_after_page_every_item_comes_once(count, limit, order):
    items = [{"id": f"msg_{number}"} for number in range(count)]
    seen, after, more = [], None, True
    while more:
        page = page_of(items, after=after, limit=limit, order=order)
        seen += page.data
        after, more = page.last_id, page.has_more
        assert page.first_id == (page.data[0]["id"] if page.data else None)
    assert seen == (items if order == "asc" else items[::-1])


def test_a_page_after_an_item_that_is_not_there_is_refused():
    with pytest.raises(ItemNotFound) as refusal:
        page_of([], after="msg_1", limit=1, order="asc")
    assert refusal.value.details["field"] == "after"
