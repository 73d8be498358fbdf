"""Cuts lists of items into pages. Pure."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from dialects_app.responses.errors import ItemNotFound

DEFAULT_LIMIT = 20
MAX_LIMIT = 100

Order = Literal["asc", "desc"]


class ItemPage(msgspec.Struct, kw_only=True):
    """A page of items.

    Attributes:
        object: The type of the object.
        data: The items.
        first_id: The first item's id; null without items.
        last_id: The last item's id, for ``after`` of the next request.
        has_more: Whether there are more after the last one.
    """

    object: str = "list"
    data: Sequence[dict[str, Any]]
    first_id: str | None = None
    last_id: str | None = None
    has_more: bool = False


def page_of(
    items: Sequence[dict[str, Any]], *, after: str | None, limit: int, order: Order
) -> ItemPage:
    """Return a page of items.

    Args:
        items: All items, oldest first.
        after: The item after which the page begins, in its order; None for the beginning.
        limit: The maximum number of items.
        order: Oldest or newest first.

    Raises:
        ItemNotFound: There is no item ``after``.
    """
    ordered = list(items) if order == "asc" else list(reversed(items))
    start = 0
    if after:
        places = [index for index, item in enumerate(ordered) if item["id"] == after]
        if not places:
            raise ItemNotFound(after, field="after")
        start = places[0] + 1
    return whole_page(ordered[start : start + limit], has_more=start + limit < len(ordered))


def whole_page(items: Sequence[dict[str, Any]], *, has_more: bool = False) -> ItemPage:
    """Return a page of these items."""
    return ItemPage(
        data=items,
        first_id=items[0]["id"] if items else None,
        last_id=items[-1]["id"] if items else None,
        has_more=has_more,
    )
