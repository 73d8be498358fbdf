"""Searches for `search_conversations` (the port ``tools_app.recall.search``)."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from search_app.places import SearchPlaces
from search_app.schemas import bounded_query, moment
from search_app.search_request import Found, Results, SearchRequest
from search_app.snippets import snippet
from tools_app.recall.arguments import SearchConversations
from tools_app.recall.search import ConversationMatch

PAGE = 50
MOST_PAGES = 5
MOST_SECONDS = 5.0
"""The time and the pages in which matches that are accepted are looked for."""


class RecallSearch:
    """Searches page by page until enough matches are accepted (a ``ConversationSearch``).

    Args:
        search: Returns a page of results; blocks.
        places: Limits how many searches run at the same time.
    """

    def __init__(self, search: Callable[[SearchRequest], Results], places: SearchPlaces) -> None:
        self._search = search
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
        for page in self._pages(request):
            for found in page.found:
                match = _match(found, request)
                if accepts(match):
                    matches.append(match)
                if len(matches) == limit:
                    return matches, True
                if time.monotonic() > end:
                    return matches, False
        return matches, page.complete and page.next_cursor is None

    def _pages(self, request: SearchRequest) -> Iterator[Results]:
        for _ in range(MOST_PAGES):
            yield (page := self._search(request))
            if page.next_cursor is None:
                return
            request = msgspec.structs.replace(request, cursor=page.next_cursor)


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
