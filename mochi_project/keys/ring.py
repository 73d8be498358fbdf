"""Holds the keys as they are now, and tells who uses one when it ends (docs/decisions/0206)."""

import asyncio
import hmac
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from mochi_project.keys.key import Key, hash_of
from mochi_project.keys.store import Keys, KeyStore, keys_of
from sessions_app.errors import MochiError

LOOK_SECONDS = 1.0
"""The interval at which it is looked whether a key has changed."""
_LATE_SECONDS = 1.25
"""The age at which a request looks itself: nobody else did."""

is_key_token = re.compile(rb"mochi_(k[0-9a-f]{8})_[A-Za-z0-9_-]{43}").fullmatch
_NO_HASH = hash_of(b"")

Ended = Callable[[bool], object]
"""Is told that a key has ended, and whether what it started goes on."""
WhenEnded = Callable[[str | None, Ended], Callable[[], object]]
"""Watches a key, as ``KeyRing.when_ended`` does."""

logger = logging.getLogger(__name__)


class KeyRing:
    """The keys of a server, read again when they change. Use it in one event loop.

    While the record can't be read, the last good one holds.

    Args:
        store: Where they are kept.
        now: The time.

    Attributes:
        problem: Why the record can't be used; None if it can.
    """

    def __init__(
        self, store: KeyStore, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._store = store
        self._now = now
        self._data: bytes | None = None
        self._keys: Keys | None = None
        self._looked_at = -_LATE_SECONDS
        self._looking = asyncio.Lock()
        self._watches: dict[_Watch, None] = {}
        self._had_some = False
        self.problem: Exception | None = None

    @property
    def closes(self) -> bool:
        """Return whether nobody is let in without a key or a token: there was one, or may be."""
        return self._had_some or (self._keys is None and self.problem is not None)

    def key_of(self, token: bytes) -> Key | None:
        """Return the key of a token, also one that has ended; None if the token is not right.

        An unknown id takes as long as a wrong secret.
        """
        found = is_key_token(token)
        key = (self._keys or {}).get(found[1].decode()) if found is not None else None
        expected = _NO_HASH if key is None else key.hash
        return key if hmac.compare_digest(hash_of(token), expected) else None

    def has_ended(self, key: Key) -> bool:
        """Return whether a key was revoked, or has expired."""
        return key.has_ended(self._now())

    async def fresh(self) -> None:
        """Read the record if nobody has done it just now, or does it: a store may be slow."""
        if time.monotonic() - self._looked_at > _LATE_SECONDS and not self._looking.locked():
            await self.look()

    async def look(self) -> None:
        """Read the record as it is by now, and tell whose keys have ended since."""
        came = time.monotonic()
        async with self._looking:
            if self._looked_at < came:  # else another one has, after this one came
                await self._look()

    async def _look(self) -> None:
        self._looked_at = time.monotonic()
        try:
            self._data, self._keys = await asyncio.to_thread(self._read)
        except (MochiError, OSError) as error:
            if self.problem is None:
                logger.error("the keys can't be read; the last ones hold: %s", error)  # noqa: TRY400
            self.problem = error
        else:
            self.problem = None
            self._had_some = self._had_some or bool(self._keys)
        for watch in reversed(list(self._watches)):  # streams of a turn before the turn
            self._tell(watch)

    def _read(self) -> tuple[bytes | None, Keys]:
        data = self._store.data()
        if data == self._data and self._keys is not None:
            return data, self._keys
        return data, keys_of(data)

    async def keep_looking(self) -> None:
        """Look each second, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look()
            except Exception:  # the next second has another chance
                logger.exception("the keys could not be looked at")

    def when_ended(
        self, key_id: str | None, ended: Ended, *, token_hash: str | None = None
    ) -> Callable[[], object]:
        """Call back once when a key has ended, or has another token.

        Args:
            key_id: The key; None for none, which never ends.
            ended: Is called back.
            token_hash: The hash of the token that was admitted; None for the one of now.

        Returns:
            What ends the watch.
        """
        if key_id is None:
            return lambda: None
        key = (self._keys or {}).get(key_id)
        now = key.hash if key is not None else None
        watch = _Watch(key_id, token_hash or now, ended)
        self._watches[watch] = None
        if self._keys is not None and (key is None or self.has_ended(key) or watch.hash != now):
            asyncio.get_running_loop().call_soon(self._tell, watch)
        return partial(self._watches.pop, watch, None)

    def _tell(self, watch: "_Watch") -> None:
        if self._keys is None or watch not in self._watches:
            return
        key = self._keys.get(watch.key_id)
        has_ended = key is None or self.has_ended(key)
        if key is not None and not has_ended and key.hash == watch.hash:
            return
        del self._watches[watch]
        watch.ended(key is not None and (key.keeps_turns or not has_ended))


@dataclass(eq=False, slots=True)
class _Watch:
    """Somebody who uses a key."""

    key_id: str
    hash: str | None
    ended: Ended
