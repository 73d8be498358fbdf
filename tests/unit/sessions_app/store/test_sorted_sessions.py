"""The order of listings."""

import random

from sessions_app.session import SessionMetadata
from sessions_app.store.repository import Unreadable
from sessions_app.store.sorted_sessions import Found, SortedSessions


def metadata(number: int, second: int) -> SessionMetadata:
    at = f"2026-01-01T00:00:{second:02}.000000+00:00"
    return SessionMetadata(session_id=f"{number:010x}", model="m", created_at=at, updated_at=at)


def test_any_history_of_changes_leaves_the_order_of_sorting_anew() -> None:
    chance = random.Random(7)
    arranged = SortedSessions()
    known: dict[str, Found] = {}
    for _ in range(200):
        found: dict[str, Found] = {}
        for _ in range(chance.choice([0, 1, 2, 30])):
            number = chance.randrange(60)
            name = f"{number:010x}.json"
            found[name] = metadata(number, chance.randrange(60))
            if chance.random() < 0.1:
                found[name] = Unreadable(file=name, reason="empty")
        removed = set(chance.sample(sorted(known), min(len(known), chance.randrange(3))))
        arranged.change(found, removed - found.keys())
        known = {name: item for name, item in known.items() if name not in removed} | found
        listing = arranged.listing()
        readable = [item for item in known.values() if isinstance(item, SessionMetadata)]
        readable.sort(key=lambda item: (item.updated_at, item.session_id), reverse=True)
        assert list(listing.sessions) == readable
        assert [item.file for item in listing.unreadable] == sorted(
            item.file for item in known.values() if isinstance(item, Unreadable)
        )


def test_nothing_is_arranged_again_while_nothing_changes() -> None:
    arranged = SortedSessions()
    arranged.change({"a": metadata(1, 1)})
    assert arranged.listing() is arranged.listing()
    assert arranged.listing(complete=False).complete is False
    assert arranged.listing().complete
