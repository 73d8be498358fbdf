"""Notices reloads of tools that were asked for, in whichever process."""

import logging
import secrets

from sessions_app.errors import StorageError
from sessions_app.store.records import Records, read_or_empty

logger = logging.getLogger(__name__)


class Generations:
    """Keeps the generation of some folders, which differs after each reload. All calls block.

    Args:
        records: The records, shared by all processes.
        name: The name of the record.
    """

    def __init__(self, records: Records, name: str) -> None:
        self._records = records
        self._name = name
        self._last = b""
        self._is_away = False

    def current(self) -> bytes:
        """Return the generation, or the last known one while the storage is unreachable.

        Tools are listed then as before, and no process can ask for a reload.
        """
        try:
            self._last = read_or_empty(self._records, self._name) or b""
            self._is_away = False
        except StorageError as error:
            if not self._is_away:
                logger.warning(
                    "reloads of other processes can't be seen now",
                    extra={"record": self._name, "reason": error.message},
                )
            self._is_away = True
        return self._last

    def bump(self) -> None:
        """Begin a new generation.

        Raises:
            StorageError: It can't be written; in Redis, it may have been.
        """
        self._records.put(self._name, secrets.token_hex(8).encode())
