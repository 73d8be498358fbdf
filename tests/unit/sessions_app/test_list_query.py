"""Pages of a listing."""

import pytest

from sessions_app.list_query import page_of
from sessions_app.store.repository import Listing


@pytest.mark.parametrize("complete", [True, False])
def test_a_page_says_whether_more_sessions_are_still_looked_for(complete: bool) -> None:
    listing = Listing(sessions=(), unreadable=(), complete=complete)
    assert page_of(listing, limit=1, offset=0, q="").complete is complete
