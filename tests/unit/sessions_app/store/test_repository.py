"""The values that cross the port of the session store."""

import random

from sessions_app.session import SessionMetadata
from sessions_app.store.repository import Found, Unreadable, listing_of


def metadata(number: int, second: int) -> SessionMetadata:
    at = f"2026-01-01T00:00:{second:02}.000000+00:00"
    return SessionMetadata(session_id=f"{number:010x}", model="m", created_at=at, updated_at=at)


def test_a_listing_is_in_order_whatever_was_read_first() -> None:
    chance = random.Random(7)
    readable = [metadata(number, chance.randrange(5)) for number in range(60)]
    broken = [Unreadable(file=f"{number:010x}.json", reason="empty") for number in range(60, 70)]
    read: list[Found] = [*readable, *broken]
    chance.shuffle(read)
    listing = listing_of(read, complete=False)
    readable.sort(key=lambda item: (item.updated_at, item.session_id), reverse=True)
    assert list(listing.sessions) == readable
    assert list(listing.unreadable) == broken
    assert not listing.complete
