"""Keeps the running calls of all processes of a data directory in one small file. Blocks.

A call is listed before it is made and until it is in the ledger, so that every process sees the
use of all others, past and expected. Calls of dead processes are ignored.
"""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import msgspec

from mochi_project.principal import DEFAULT_OWNER
from sessions_app.decoding import decoder_of
from sessions_app.store.atomic import UnreadableFileError, read_regular, write_atomically
from sessions_app.store.file_owners import FileOwners
from sessions_app.store.locks import FileLocks, HeldLock
from usage_app.budgets.budget import Use

NAME = "running.json"
_LOCK = "running"
_LOCK_SECONDS = 10.0
_MOST_BYTES = 16 << 20


class RunningCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A running call with its probable use.

    Attributes:
        call_id: The call.
        owner: The id of the process that makes it.
        provider: The provider: ``ollama``, or a vendor's name.
        model: The model's name, without its provider.
        principal: The owner of data that it is made for.
        tokens: The expected number of tokens.
        cost_usd: The expected cost in US dollars, if it is known.
    """

    call_id: str
    owner: str
    provider: str
    model: str
    principal: str = DEFAULT_OWNER
    tokens: int = 0
    cost_usd: Decimal = Decimal(0)

    @property
    def use(self) -> Use:
        """The use that counts against budgets while the call runs."""
        return Use(requests=1, tokens=self.tokens, cost_usd=self.cost_usd)


_decoder = decoder_of(list[RunningCall])
_encoder = msgspec.json.Encoder()


class RunningCalls:
    """The running calls, in a directory of their own.

    Args:
        directory: The directory of the file; created with the first call.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / NAME
        self._owners = FileOwners(directory)
        self._locks = FileLocks(directory)

    def mine(self) -> str:
        """Return the id of this process.

        Raises:
            StorageError: The directory can't be written to.
        """
        return self._owners.mine()

    def locked(self) -> HeldLock:
        """Lock the file against all other processes and threads, for a ``with`` block.

        Raises:
            TimeoutError: Another process holds the lock.
            OSError: The directory can't be written to.
        """
        return self._locks.held(_LOCK, timeout_seconds=_LOCK_SECONDS)

    def read(self) -> Sequence[RunningCall]:
        """Return the calls of living processes.

        Raises:
            OSError: The file can't be read.
        """
        try:
            calls = _decoder.decode(read_regular(self._path, limit=_MOST_BYTES))
        except (FileNotFoundError, UnreadableFileError, msgspec.MsgspecError):
            return []
        living = {owner: self._owners.lives(owner) for owner in {call.owner for call in calls}}
        return [call for call in calls if living[call.owner]]

    def write(self, calls: Sequence[RunningCall]) -> None:
        """Replace the list of running calls. Not synced: it need not survive a power failure.

        Raises:
            StorageError: The directory can't be written to.
        """
        write_atomically(self._path, _encoder.encode(calls), durable=False)

    def close(self) -> None:
        """Close the lock's file."""
        self._locks.close()
