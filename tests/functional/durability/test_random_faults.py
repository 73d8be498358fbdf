"""Random faults under everything at once: nothing acknowledged is lost, no tool runs twice.

Each round breaks a server of two web processes and a background worker in one way while eight
clients of three owners use it in eight ways. Afterwards everything that clients were told must be
true, for its owner and nobody else.
"""

import ctypes
import itertools
import json
import os
import random
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.functional.durability.clients import (
    SCENARIOS,
    FaultyServerClient,
    HealthWatch,
    Witness,
    run,
)

# <fcntl.h> and <linux/fs.h>
AT_FDCWD, RENAME_EXCHANGE = -100, 2
ROUNDS = int(os.environ.get("MOCHI_E2E_FAULT_ROUNDS", "1"))
SEED = int(os.environ.get("MOCHI_E2E_FAULT_SEED", "0")) or random.SystemRandom().randrange(10**6)
OWNERS = ("default", "anna", "bob")
"""Whom the clients act for, by turns."""
MANY = int(os.environ.get("MOCHI_E2E_OWNERS", "12"))
"""The owners of the run with many of them."""
TOKEN = "of-who-runs-the-server-in-tests-with-owners"
ADMIN = {"Authorization": f"Bearer {TOKEN}"}
CLIENT_SECONDS = 90
AGE_SECONDS = 7 * 24 * 3600
ROOT = Path(__file__).parents[3]
TOOL = '''
"""A tool whose runs can be counted."""

import os

__all__ = ["note"]


def note(text: str) -> str:
    """Write a line down.

    Args:
        text: The line.
    """
    descriptor = os.open({runs!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, text.encode() + b"\\n")
    os.close(descriptor)
    return f"noted {{text}}"
'''
SKILL = "---\ndescription: Takes notes.\n---\nYou take notes.\n"
DETACHED = 0.7
"""How many of the clients' turns go on without them, where turns go on after a death."""
GONE = frozenset({"SESSION_NOT_FOUND", "SUMMARY_NOT_FOUND", "CONFIRMATION_NOT_FOUND"})


class World:
    """A server, and what can happen to it."""

    def __init__(
        self, start, directory: Path, chance: random.Random, *, continues: bool = False
    ) -> None:
        self.continues = continues
        self._start = start
        self._chance = chance
        self.faults = directory / "faults"
        self.faults.mkdir()
        self.runs = directory / "runs"
        self.data_dir = directory / "data"
        self.sessions = self.data_dir / "chat_sessions"
        self._make_tools()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.server = self._begin()
        self._keys = {"default": ADMIN}

    def key_of(self, owner: str) -> dict[str, str]:
        """Return the headers of the clients of an owner."""
        if owner not in self._keys:
            http = self.server.chat(headers=ADMIN).http
            answer = http.post("/keys", json={"owner": owner})
            assert answer.status_code == 201, answer.text
            self._keys[owner] = {"Authorization": f"Bearer {answer.json()['token']}"}
            until_known(self.server, self._keys[owner])
        return self._keys[owner]

    def chat_of(self, witness: Witness):
        """Return a client that acts for the owner of what a witness saw."""
        return self.server.chat(headers=witness.headers)

    def session_file(self, witness: Witness) -> Path:
        """Return the file of the witness' session."""
        directory = self.sessions
        if witness.owner != "default":
            directory = self.data_dir / "users" / witness.owner / "chat_sessions"
        return directory / f"{witness.session_id}.json"

    def _make_tools(self) -> None:
        code = TOOL.format(runs=str(self.runs))
        agent = self.data_dir / "agents" / "scribe"
        for folder in (self.data_dir / "tools", agent):
            folder.mkdir(parents=True)
        (self.data_dir / "tools" / "notes.py").write_text(code)
        (agent / "SKILL.md").write_text(SKILL)
        (agent / "scribe.py").write_text(code)
        (agent / "__init__.py").write_text("from .scribe import note\n__all__ = ['note']\n")

    def _begin(self):
        faulty = Path(__file__).with_name("faulty")
        return self._start(
            "--workers",
            "2",
            "--port",
            str(self._port),
            PYTHONPATH=os.pathsep.join([str(ROOT), str(faulty)]),
            MOCHI_API_TOKEN=TOKEN,
            MOCHI_MAX_ACTIVE_TURNS="500",
            MOCHI_E2E_FAULTS=str(self.faults),
            MOCHI_BACKGROUND_WORKER="true",
            MOCHI_SUMMARIZATION_INTERVAL_SECONDS="1",
            MOCHI_SHUTDOWN_GRACE_SECONDS="0.2",
            MOCHI_TEST_WORDS_PER_SECOND="200",
            MOCHI_ON_CRASH="continue" if self.continues else "seal",
            MOCHI_TOOL_CONFIRMATION_TIMEOUT_SECONDS="5" if self.continues else "300",
        )

    def a_moment(self) -> None:
        """Let some time go by, a different one each time: what happens in it is the test."""
        time.sleep(0.1 + self._chance.random() * 0.8)

    # --- Faults ---------------------------------------------------------------------------

    def kill_one(self) -> None:
        """A web process dies."""
        victim = self._chance.choice(self.server.web_processes)
        victim.kill()
        psutil.wait_procs([victim], timeout=10)

    def kill_all(self) -> None:
        """Everything dies at once, and is started again."""
        self.server.kill()
        self.server = self._begin()

    def stop_properly(self) -> None:
        """Somebody restarts the server."""
        self.server.stop(signal.SIGTERM)
        self.server = self._begin()

    def freeze_one(self) -> None:
        """A web process stands still for a while."""
        victim = self._chance.choice(self.server.web_processes)
        victim.suspend()
        self.a_moment()
        victim.resume()

    def freeze_and_kill(self) -> None:
        """A web process stands still, and dies without having gone on."""
        victim = self._chance.choice(self.server.web_processes)
        victim.suspend()
        self.a_moment()
        victim.kill()
        psutil.wait_procs([victim], timeout=10)

    def fill_the_disk(self) -> None:
        """No byte can be written for a while."""
        with self._fault("full"):
            self.a_moment()

    def make_it_read_only(self) -> None:
        """Nothing can be changed for a while."""
        with self._fault("readonly"):
            self.a_moment()

    def fill_the_disk_and_kill(self) -> None:
        """No byte can be written, and then everything dies."""
        with self._fault("full"):
            self.a_moment()
            self.server.kill()
        self.server = self._begin()

    def unmount_the_sessions(self) -> None:
        """The sessions' directory is empty for a while, as a volume that is not mounted."""
        placeholder = self.sessions.with_name(f"placeholder-{time.time_ns()}")
        placeholder.mkdir()
        exchange(self.sessions, placeholder)
        try:
            self.a_moment()
        finally:
            exchange(self.sessions, placeholder)

    @contextmanager
    def _fault(self, name: str) -> Iterator[None]:
        flag = self.faults / name
        flag.touch()
        try:
            yield
        finally:
            flag.unlink()


def exchange(one: Path, other: Path) -> None:
    """Exchange two directories at one moment, as mounting does: at none there is neither."""
    paths = (AT_FDCWD, bytes(one), AT_FDCWD, bytes(other))
    if ctypes.CDLL(None, use_errno=True).renameat2(*paths, RENAME_EXCHANGE):
        raise OSError(ctypes.get_errno(), "The directories can't be exchanged")


FAULTS = [
    World.kill_one,
    World.kill_all,
    World.stop_properly,
    World.freeze_one,
    World.freeze_and_kill,
    World.fill_the_disk,
    World.make_it_read_only,
    World.fill_the_disk_and_kill,
    World.unmount_the_sessions,
]


@pytest.mark.soak
@pytest.mark.timeout(120 + 240 * ROUNDS)  # longer than a round's own limits, which say what hangs
@pytest.mark.parametrize("continues", [False, True], ids=["seal", "continue"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_at_any_moment_loses_nothing_and_runs_no_tool_twice(
    start, tmp_path, fault, continues
):
    chance = random.Random(f"{SEED} {fault.__name__}")
    world = World(start, tmp_path, chance, continues=continues)
    for number in range(ROUNDS):
        what = f"{fault.__name__} {number}, MOCHI_E2E_FAULT_SEED={SEED}"
        print(what, time.strftime("%X"), flush=True)
        owners = list(itertools.islice(itertools.cycle(OWNERS), len(SCENARIOS)))
        check_all(world, one_round(world, fault, chance, owners), what)


@pytest.mark.soak
@pytest.mark.timeout(480 + 20 * MANY)
def test_many_owners_at_once_lose_nothing_with_processes_that_die(start, tmp_path):
    chance = random.Random(f"{SEED} owners")
    world = World(start, tmp_path, chance, continues=True)
    owners = [f"owner{number}" for number in range(MANY)]
    for fault in (World.kill_one, World.kill_all):
        what = f"{MANY} owners, {fault.__name__}, MOCHI_E2E_FAULT_SEED={SEED}"
        check_all(world, one_round(world, fault, chance, owners), what)


def check_all(world: World, witnesses: list[Witness], what: str) -> None:
    """Check what each client was told, and that nobody else can be told it."""
    for number, witness in enumerate(witnesses):
        check(world, world.chat_of(witness), witness, what)
        for other in {"default", witnesses[number - 1].owner} - {witness.owner}:
            http = world.server.chat(headers=world.key_of(other)).http
            assert http.get(f"/sessions/{witness.session_id}").status_code == 404, what
    assert wait_until_tidy(world, 90) == [], what


def until_known(server, headers: dict[str, str]) -> None:
    """Wait until each web process knows a key."""
    deadline = time.monotonic() + 60
    for process in server.web_processes:
        http = server.chat_with(process).http
        while http.get("/sessions", headers=headers).status_code == 401:
            assert time.monotonic() < deadline, "a process does not know a key"
            time.sleep(0.05)


def one_round(world: World, fault, chance: random.Random, owners: list[str]) -> list[Witness]:
    """Break the server once under a client of each owner, and return what those were told."""
    settings = {"tools": ["note"], "execution_policy": "never_confirm"}
    witnesses = []
    for owner in owners:
        chat = world.server.chat(headers=world.key_of(owner))
        session_id = chat.new_session(tool_settings=settings)
        witnesses.append(Witness(session_id, owner=owner, headers=world.key_of(owner)))
    scenarios = list(itertools.islice(itertools.cycle(SCENARIOS), len(owners)))
    tolerated = GONE if fault is World.unmount_the_sessions else frozenset()
    url = world.server.url
    health = HealthWatch(url)
    health.start()
    with ThreadPoolExecutor(len(scenarios)) as pool:
        clients = [
            FaultyServerClient(
                url,
                witness,
                random.Random(chance.random()),
                tolerated,
                detached=world.continues and chance.random() < DETACHED,
            )
            for witness in witnesses
        ]
        running = [
            pool.submit(run, client, scenario)
            for client, scenario in zip(clients, scenarios, strict=True)
        ]
        world.a_moment()
        fault(world)
        _, hanging = wait(running, timeout=CLIENT_SECONDS)
        hung = {
            scenario.__name__: client.last_seen
            for each, client, scenario in zip(running, clients, scenarios, strict=True)
            if each in hanging
        }
        if hung:
            world.server.kill()  # or the clients' threads would never end
    for each in running:
        each.result()
    assert hung == {}
    witnesses[0].defects += health.stop()
    return witnesses


def check(world: World, chat, witness: Witness, what: str) -> None:
    """Check that all that the client was told is true, and that the session can be used."""
    session_id = witness.session_id
    assert witness.defects == [], what
    assert chat.http.get(f"/sessions/{session_id}/status").status_code == 200, what
    if (left := chat.http.get(f"/chat/{session_id}/stream")).status_code != 204:
        assert left.status_code == 200, (what, left.text)
        assert b"event: done" in left.content, (what, left.text[-500:])
    file = json.loads(world.session_file(witness).read_text())
    said = json.dumps(file["messages"], ensure_ascii=False)
    messages = chat.messages(session_id)
    users = Counter(m["content"] for m in messages if m["role"] == "user")
    for question in witness.questions:
        assert users[question] == 1, (what, question, messages)
    for message_id, content in witness.answers.items():
        assert message_id in said, (what, content, messages)
        assert json.dumps(content.strip())[1:-1] in said, (what, content, messages)
    for text in witness.texts:
        assert json.dumps(text)[1:-1] in said, (what, text, messages)
    results = Counter(m["tool_call_id"] for m in messages if m["role"] == "tool")
    for call_id in witness.results:
        assert results[call_id] == 1, (what, call_id, messages)
    for copy, count in witness.made.items():
        assert len(chat.messages(copy)) == count, what
    alive = chat.http.post(f"/chat/{session_id}", json={"message": "alive?"})
    assert alive.status_code in {200, 202}, (what, alive.text)
    runs = Counter(world.runs.read_text().splitlines() if world.runs.exists() else [])
    assert [note for note in witness.notes if runs[note] > 1] == [], what


def wait_until_tidy(world: World, seconds: float) -> list[Path]:
    """Wait for the sweep, which comes every two seconds here, and return what it left."""
    deadline = time.monotonic() + seconds
    while (left := untidy(world)) and time.monotonic() < deadline:
        for path in left:
            if path.suffix == ".tmp":
                let_age(path)
        time.sleep(0.1)
    return left


def let_age(torn: Path) -> None:
    """Let a torn write become old: where it can't be told from one that is being made, that counts.

    A disk that becomes read-only between two system calls keeps the first one's file.
    """
    with suppress(FileNotFoundError):  # swept, or made whole, just now
        if time.time() - torn.stat().st_mtime > 1:
            os.utime(torn, (0, time.time() - AGE_SECONDS))


def untidy(world: World) -> list[Path]:
    """Return what is left unsealed, claimed or half-written."""
    left = [*world.data_dir.rglob("*.tmp"), *world.data_dir.rglob("*.broken")]
    left += world.data_dir.glob("**/.claims/*.claim")
    left += [
        journal
        for journal in world.data_dir.glob("**/.mochi/*turns/*/*.jsonl")
        if b'"event":"done"' not in journal.read_bytes()[-4096:]
    ]
    return [path for path in left if "placeholder" not in str(path)]
