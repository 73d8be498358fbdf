"""Several processes that share sessions and journals, and nothing else but a person's answers."""

from pathlib import Path

from tests.contract.memory_journal import MemoryJournal
from tests.contract.memory_repository import MemoryOwners, MemorySessionRepository
from tests.unit.chat.conftest import House, NoTools


class Node(House):
    """One process; it has a name, and shares what another one keeps."""

    def __init__(
        self, data_dir: Path, name: str, *, beside: "Node | None" = None, toolset=None, **how
    ):
        self.owners = MemoryOwners(name, beside.owners.dead if beside else None)
        shared = MemorySessionRepository(self.owners, beside=beside.repository if beside else None)
        self.repository = shared
        self.repository_type = lambda *_, **__: shared
        journal = MemoryJournal(self.owners.lives, beside=beside.journal if beside else None)
        super().__init__(data_dir, toolset or NoTools(), journal=journal, **how)

    def at_each_step(self, call):
        """Have ``call`` called with the name of each step, before others can see it."""
        self.repository.reach = self.journal.reach = call
