"""Declares the port to the search in saved conversations, which an app implements."""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from tools_app.recall.arguments import SearchConversations


class ConversationMatch(msgspec.Struct, frozen=True, kw_only=True):
    """A message, a title or a summary (then without an index and id) with the words of a search.

    Its time is the message's, or that of the conversation's last change; its excerpt is on one
    line, around the first of the words.
    """

    session_id: str
    title: str | None
    role: str
    message_index: int | None
    message_id: str | None
    timestamp: str
    excerpt: str


class ConversationSearch(Protocol):
    """Searches in all saved conversations."""

    async def search(
        self, request: SearchConversations, accepts: Callable[[ConversationMatch], bool]
    ) -> tuple[Sequence[ConversationMatch], bool]:
        """Return the first matches that are accepted, and whether nothing before was left out.

        Args:
            request: The search.
            accepts: Decides about a match; it blocks, and is called in a thread.

        Raises:
            ValidationFailed: A time is none, or there are too many phrases.
        """
        ...
