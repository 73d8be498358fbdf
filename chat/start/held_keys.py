"""Takes idempotency keys for what they start, and frees those of requests that failed."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from chat.storage.idempotency_keys import HeldKey, IdempotencyKeys, KeyRecord
from sessions_app.errors import StorageError

logger = logging.getLogger(__name__)

Started = TypeVar("Started")


async def start_under_key(
    keys: IdempotencyKeys,
    key: str,
    fingerprint: str,
    start: Callable[[HeldKey], Awaitable[Started]],
    *,
    abandoned: Callable[[asyncio.Task[Started | KeyRecord]], object],
) -> Started | KeyRecord:
    """Start something under a key, or return what the key stands for already.

    When the caller is cancelled, the start goes on: a key that was taken must be let go.

    Args:
        keys: The keys.
        key: The ``Idempotency-Key``.
        fingerprint: The hash of its request.
        start: Starts what the key was taken for; releases or drops the key.
        abandoned: The task's done callback when nobody waits for it any more.

    Raises:
        KeyReused: The key stands for another request.
        MochiError: What ``start`` raises.
    """

    async def take() -> Started | KeyRecord:
        taken = await asyncio.to_thread(keys.take, key, fingerprint)
        return taken if isinstance(taken, KeyRecord) else await start(taken)

    taking = asyncio.create_task(take())
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        taking.add_done_callback(abandoned)
        raise


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
