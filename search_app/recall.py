"""Searches for `search_conversations` (the port ``tools_app.recall.search``)."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from search_app.places import SearchPlaces
from search_app.schemas import bounded_query, moment
from search_app.search_request import Found, SearchRequest
from search_app.snippets import snippet
from tools_app.recall.arguments import SearchConversations
from tools_app.recall.search import ConversationMatch

if TYPE_CHECKING:  # it imports SQLite
    from search_app.service import SessionSearch

PAGE = 50
MOST_PAGES = 5
MOST_SECONDS = 5.0
"""The time and the pages in which matches that are accepted are looked for."""


class RecallSearch:
    """Searches page by page until enough matches are accepted (a ``ConversationSearch``).

    Args:
        find: Returns the search, which is opened by the first call; blocks.
        places: Limits how many searches run at the same time.
    """

    def __init__(self, find: "Callable[[], SessionSearch]", places: SearchPlaces) -> None:
        self._find = find
        self._places = places

    async def search(
        self, request: SearchConversations, accepts: Callable[[ConversationMatch], bool]
    ) -> tuple[Sequence[ConversationMatch], bool]:
        """Search as the port says."""
        first = SearchRequest(
            query=bounded_query(request.query, "query"),
            role=request.role or None,
            model=request.model or None,
            since=moment(request.after or None, "after"),
            until=moment(request.before or None, "before", ends=True),
            limit=PAGE,
            session_id=request.session_id or None,
        )
        async with self._places:
            return await asyncio.to_thread(self._matches, first, accepts, request.limit)

    def _matches(
        self, request: SearchRequest, accepts: Callable[[ConversationMatch], bool], limit: int
    ) -> tuple[Sequence[ConversationMatch], bool]:
        matches: list[ConversationMatch] = []
        end = time.monotonic() + MOST_SECONDS
        for _ in range(MOST_PAGES):
            page = self._find().search(request)
            for found in page.found:
                if accepts(match := _match(found, request)):
                    matches.append(match)
                if len(matches) == limit or time.monotonic() > end:
                    return matches, len(matches) == limit
            if page.next_cursor is None:
                return matches, page.complete
            request = msgspec.structs.replace(request, cursor=page.next_cursor)
        return matches, False


def _match(found: Found, request: SearchRequest) -> ConversationMatch:
    entry, metadata = found.entry, found.metadata
    return ConversationMatch(
        session_id=metadata.session_id,
        title=metadata.title,
        role=entry.role,
        message_index=entry.message_index,
        message_id=entry.message_id,
        timestamp=entry.timestamp,
        excerpt="".join(piece.text for piece in snippet(entry.text, request.query)),
    )
