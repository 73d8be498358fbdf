"""Caches facts about long histories, so that only new messages are examined.

A turn asks things of a history that only all of it can answer: whether a message is hidden, which
ones have attachments, whether those that are left out are still the same. The next turn's history
begins with the same messages, and they are values: what was found in them holds.
"""

import threading
from collections.abc import Collection, Sequence

from sessions_app.context_state import digest_of
from sessions_app.messages import Message, shown

SHORTEST = 256
"""Messages of a history that is worth remembering; a shorter one is looked through in no time."""

UNSETTLED = 64
"""Messages at the end that may become others: a question gets its turn's id, an answer is made
again. They are looked at each time."""

MOST_MESSAGES = 1 << 16
"""Messages of all histories that are remembered; most of them are kept by their store as well."""

MOST_CHARACTERS = 1 << 25
"""Characters of their texts."""

COMPARED_AT_ONCE = 1024
"""Messages; all other threads wait meanwhile."""


class HistoryFacts:
    """Describes the contents of a history.

    Attributes:
        messages: The history.
        shown: The messages that are not hidden from models.
        attached: The ids of those among them that have attachments.
        characters: How long the texts of all messages are together.
        digest: The last span that was digested, with what of it lies behind these messages, and
            its digest.
        settled: What is remembered of the beginning.
    """

    def __init__(self, messages: Sequence[Message], before: "HistoryFacts | None" = None) -> None:
        """Look through a history, but for the messages that it has in common with ``before``."""
        self.messages = messages
        new = messages if before is None else messages[len(before.messages) :]
        seen = shown(new)
        self.attached = [m.message_id for m in seen if m.attachments]
        self.characters = sum([len(message.content) for message in new])
        self.digest: tuple[tuple[int, int, Sequence[Message]], str] | None = None
        self.settled: HistoryFacts | None = None
        if before is None:
            self.shown = seen
            return
        self.attached = [*before.attached, *self.attached]
        self.characters += before.characters
        self.digest = before.digest
        if seen is new and before.shown is before.messages:
            self.shown = messages
        else:
            self.shown = (*before.shown, *seen)

    def digest_of(self, span: range) -> str:
        """Return the digest of a span of the shown messages; the last one is remembered."""
        kept = self.settled or self
        rest = tuple(self.shown[len(kept.shown) : span.stop])
        digested = (span.start, span.stop, rest)
        known = kept.digest
        if known is None or known[0] != digested:
            known = kept.digest = digested, digest_of(self.shown[span.start : span.stop])
        return known[1]


class HistoryFactsCache:
    """A cache of surveys of the histories that were looked at last.

    A survey counts only if its messages are those with which the history begins, so that nothing
    kept can be out of date. Mostly they are the same objects, and comparing them takes no time.
    Safe to use from several threads.
    """

    def __init__(
        self, *, most_messages: int = MOST_MESSAGES, most_characters: int = MOST_CHARACTERS
    ) -> None:
        self._most = most_messages, most_characters
        self._lock = threading.Lock()
        self._kept: dict[str, HistoryFacts] = {}

    def of(self, messages: Sequence[Message], session_id: str = "") -> HistoryFacts:
        """Return what there is in a session's history; without its id, nothing is remembered."""
        if len(messages) < SHORTEST or not session_id:
            return HistoryFacts(messages)
        messages = tuple(messages)
        length = len(messages) // UNSETTLED * UNSETTLED - UNSETTLED
        settled = self._kept.get(session_id)
        if settled is not None and not _begins_with(messages[:length], settled.messages):
            settled = None
        if settled is None or len(settled.messages) < length:
            settled = HistoryFacts(messages[:length], settled)
            self._keep(session_id, settled)
        facts = HistoryFacts(messages, settled)
        facts.settled = settled
        return facts

    def _keep(self, session_id: str, facts: HistoryFacts) -> None:
        if not self._lock.acquire(blocking=False):
            return  # another thread's is kept; a forked child may find it locked for ever
        try:
            self._kept.pop(session_id, None)
            if self._is_too_much([facts]):
                return  # or all others would have to go
            self._kept[session_id] = facts
            while self._is_too_much(self._kept.values()):
                del self._kept[next(iter(self._kept))]
        finally:
            self._lock.release()

    def _is_too_much(self, facts: Collection[HistoryFacts]) -> bool:
        most_messages, most_characters = self._most
        return (
            sum(len(each.messages) for each in facts) > most_messages
            or sum(each.characters for each in facts) > most_characters
        )


def _begins_with(messages: tuple[Message, ...], first: Sequence[Message]) -> bool:
    # The same objects are not looked into. Others are compared in runs, between which other threads
    # have their turn: 50,000 messages take 15 ms.
    beginning = messages[: len(first)]
    return len(beginning) == len(first) and all(
        beginning[at : at + COMPARED_AT_ONCE] == first[at : at + COMPARED_AT_ONCE]
        for at in range(0, len(first), COMPARED_AT_ONCE)
    )


HISTORY_FACTS = HistoryFactsCache()
"""Those of this process."""
