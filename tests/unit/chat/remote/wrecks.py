"""A turn whose machine died, in stores that several processes share; and who may find it."""

from collections.abc import Callable, Sequence

from chat.remote.recovery import TurnRecovery
from chat.storage.journal import line
from sessions_app.messages import AssistantMessage, UserMessage
from sessions_app.session import append_messages, make_session
from tests.contract.memory_journal import MemoryJournal
from tests.contract.memory_repository import MemoryOwners, MemorySessionRepository

SESSION, TURN = "a1b2c3d4e5", "0199f3a2b4c50000abcd"
NOW = "2026-11-21T10:00:00.000000+00:00"
SAID = (
    (0, "round", '{"message_id":"m1"}'),
    (1, "turn_started", f'{{"turn_id":"{TURN}","session_id":"{SESSION}","model":"m"}}'),
    (2, "content_delta", '{"content":"Half "}'),
    (3, "content_delta", '{"content":"an answer"}'),
)


class Died(BaseException):
    """Whoever raises this makes no further step."""


class Process:
    """One of the processes: its id, its adapters over what all share, its recovery."""

    def __init__(self, name: str, dead: set[str], beside: "Process | None" = None) -> None:
        self.owners = MemoryOwners(name, dead)
        self.repository = MemorySessionRepository(
            self.owners, beside=beside.repository if beside else None
        )
        self.journal = MemoryJournal(self.owners.lives, beside=beside.journal if beside else None)
        self.recovery = TurnRecovery(repository=self.repository, journal=self.journal)

    def at_each_step(self, call: Callable[[str], object]) -> None:
        """Have ``call`` called with the name of each step, before it is made."""
        self.repository.reach = self.journal.reach = call


class Wreck:
    """A turn that said half an answer before its process was given up for dead.

    Args:
        said: What its journal has.
    """

    def __init__(self, said: Sequence[tuple[int, str, str]] = SAID) -> None:
        self._dead: set[str] = set()
        self.owner = Process("owner", self._dead)
        session = make_session(SESSION, "m", now=NOW)
        owner = self.owner.owners.mine()
        self.owner.repository.claim(
            SESSION,
            TURN,
            owner=owner,
            new=session,
            change=lambda found: (
                append_messages(
                    found,
                    UserMessage(content="Hello!", message_id="u1", timestamp=NOW),
                    now=NOW,
                ),
                None,
            ),
        )
        self.writer = self.owner.journal.open(SESSION, TURN, owner=owner)
        for entry in said:
            self.writer.append(line(*entry))

    def process(self, name: str) -> Process:
        """Return another process."""
        return Process(name, self._dead, beside=self.owner)

    def lose(self) -> "Wreck":
        """Give the turn's process up."""
        self.owner.owners.condemn()
        return self

    def check_sealed_once(self) -> None:
        """Assert that the turn is in its session and ended, once."""
        finder = self.process("finder")
        asked, answer = finder.repository.load(SESSION).messages
        assert asked.content == "Hello!"
        assert isinstance(answer, AssistantMessage)
        assert (answer.content, answer.interrupted) == ("Half an answer", True)
        entries = finder.journal.read(SESSION, TURN).entries
        assert [entry.event for entry in entries if entry.n] == [
            "turn_started",
            *["content_delta"] * 2,
            "error",
            "done",
        ]
        assert [entry.n for entry in entries if entry.n] == [1, 2, 3, 4, 5]
        assert finder.repository.claim_of(SESSION) is None
        assert finder.repository.claims() == []
        assert finder.journal.unended_sessions() == []
