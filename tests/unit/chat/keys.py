"""Idempotency keys in files, as a server keeps them."""

from pathlib import Path

from chat.storage.idempotency_keys import KEY_LIMIT, KEY_RECORDS, IdempotencyKeys
from sessions_app.store.file_owners import FileOwners
from sessions_app.store.file_records import FileRecords


def keys_in(directory: Path) -> IdempotencyKeys:
    """Return the keys of a directory, in which this process is an owner, too."""
    records = FileRecords(directory, names=KEY_RECORDS, limit=KEY_LIMIT, durable=False)
    return IdempotencyKeys(records, owners=FileOwners(directory / "owners"))
