"""Takes idempotency keys for what they start, and frees those of requests that failed."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from chat.storage.idempotency_keys import HeldKey, IdempotencyKeys, KeyRecord
from sessions_app.errors import StorageError

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.02

Started = TypeVar("Started")
Found = TypeVar("Found")


class KeyOfMessage(Exception):
    """Raised for a key that stands for a message that was queued."""

    def __init__(self, session_id: str, message_id: str) -> None:
        super().__init__(message_id)
        self.session_id = session_id
        self.message_id = message_id


async def under_key(
    keys: IdempotencyKeys,
    key: str,
    fingerprint: str,
    *,
    start: Callable[[HeldKey], Awaitable[Started]],
    find: Callable[[KeyRecord, bool], Awaitable[Found | None]],
    abandoned: Callable[[asyncio.Task[Started | KeyRecord]], object],
) -> Started | Found:
    """Start something under a key, or wait for what another request starts or started under it.

    Args:
        keys: The keys.
        key: The ``Idempotency-Key``.
        fingerprint: The hash of its request.
        start: Starts what the key was taken for, and releases or drops it.
        find: Returns what a record stands for; None while it is held, or to free its key.
        abandoned: The task's done callback when nobody waits for it any more.

    Raises:
        KeyReused: The key stands for another request.
        MochiError: What ``start`` and ``find`` raise.
    """

    async def take() -> Started | KeyRecord:
        taken = await asyncio.to_thread(keys.take, key, fingerprint)
        return taken if isinstance(taken, KeyRecord) else await start(taken)

    while True:
        taking = asyncio.create_task(take())
        try:
            taken = await asyncio.shield(taking)
        except asyncio.CancelledError:  # the start goes on: a key that was taken must be let go
            taking.add_done_callback(abandoned)
            raise
        if not isinstance(taken, KeyRecord):
            return taken
        record: KeyRecord | None = taken
        while record is not None and record.fingerprint == fingerprint:
            held = await asyncio.to_thread(keys.is_held, record)
            current = await asyncio.to_thread(keys.find, key)
            if current == record:  # else it became known just before it was let go
                if (found := await find(record, held)) is not None:
                    return found
                if not held:
                    await asyncio.to_thread(keys.drop, key, record)
                    break
                await asyncio.sleep(POLL_SECONDS)
            record = current


@asynccontextmanager
async def freed_on_failure(held: HeldKey) -> AsyncIterator[None]:
    """Free a key whose request fails."""
    try:
        yield
    except BaseException:
        await asyncio.to_thread(free_key, held.drop)
        raise


def free_key(drop: Callable[[], None]) -> None:
    """Free a key; one that stays is held by nobody, so the next request with it frees it. Blocks.

    Args:
        drop: Frees the key.
    """
    try:
        drop()
    except (OSError, StorageError) as error:
        logger.warning("a key could not be freed", extra={"reason": str(error)})
