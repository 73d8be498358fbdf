"""Keeps the calls that run, of all processes of a data directory, in one small file. Blocks.

A call is there from before it is made until the ledger has it; so that together with the ledger
every process sees what others are about to use. Those of dead processes are left out.
"""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import msgspec

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
    """A call that runs, with what it will probably use.

    Attributes:
        call_id: The call.
        owner: The process that makes it.
        provider: The provider: ``ollama``, or a vendor's name.
        model: The model's name, without a provider in front.
        tokens: What it will use.
        cost_usd: What that will cost, as far as it is known.
    """

    call_id: str
    owner: str
    provider: str
    model: str
    tokens: int = 0
    cost_usd: Decimal = Decimal(0)

    @property
    def use(self) -> Use:
        """The use that counts against budgets meanwhile."""
        return Use(requests=1, tokens=self.tokens, cost_usd=self.cost_usd)


_decoder = decoder_of(list[RunningCall])
_encoder = msgspec.json.Encoder()


class RunningCalls:
    """The calls that run, in a directory of their own.

    Args:
        directory: Where the file is; made with the first call.
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
        """Keep all other processes and threads out, for a ``with`` block that follows at once.

        Raises:
            TimeoutError: Another process keeps it.
            OSError: The directory can't be written to.
        """
        return self._locks.held(_LOCK, timeout_seconds=_LOCK_SECONDS)

    def read(self) -> Sequence[RunningCall]:
        """Return the calls of processes that live.

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
        """Replace what runs. It does not outlive the machine, so nothing is synced.

        Raises:
            StorageError: The directory can't be written to.
        """
        write_atomically(self._path, _encoder.encode(calls), durable=False)

    def sweep(self) -> None:
        """Remove what dead processes left."""
        self._owners.sweep()

    def close(self) -> None:
        """Close the lock's file."""
        self._locks.close()
