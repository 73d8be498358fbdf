"""``kill -9`` at any moment: nothing that was acknowledged is missing, and nobody has to wait."""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest

from chat.chores import TEMPORARY_FILE_SECONDS
from chat.remote.recovery import TurnRecovery
from chat.storage.files.journals import FileTurnJournal
from sessions_app.store.file_repository import FileSessionRepository

ROUNDS = int(os.environ.get("MOCHI_E2E_CRASH_ROUNDS", "12"))
SEED = int(os.environ.get("MOCHI_E2E_CRASH_SEED", "0")) or random.SystemRandom().randrange(10**6)
ROOT = Path(__file__).parents[3]
CLIENTS = 4
SEALER = Path(__file__).with_name("seal.py")
POINTS = [
    "before the save",
    "before the claim is given up",
    "before the journal is ended",
    "in the middle of a line",
    "before the last line",
]


class Seen:
    """What a client saw of a turn before its server died."""

    def __init__(self, session_id):
        self.session_id = session_id
        self.received = b""

    @property
    def events(self):
        received = self.received.replace(b"retry: 2000\n", b"")
        whole = received[: received.rfind(b"\n\n")].decode().split("\n\n")
        lines = [frame.split("\n") for frame in whole if frame.startswith("id: ")]
        return [(name[7:], json.loads(data[6:])) for _, name, data in lines]

    def of(self, name):
        return [data for event, data in self.events if event == name]

    @property
    def text(self):
        """The text of the answer that was being made, after the last tools."""
        events = self.events
        names = [name for name, _ in events]
        begin = len(names) - names[::-1].index("tool_result") if "tool_result" in names else 0
        return "".join(data["content"] for name, data in events[begin:] if name == "content_delta")


def talk(server, session_id, message):
    """Have a turn until it ends or the server dies."""
    seen = Seen(session_id)
    chat = server.chat()
    try:
        with chat.http.stream(
            "POST", f"/chat/{session_id}/stream", json={"message": message}
        ) as answer:
            for chunk in answer.iter_bytes():
                seen.received += chunk
    except httpx.TransportError:
        pass
    return seen


def check(server, chat, seen, message):
    """Check that the session holds everything that its client was told."""
    messages = chat.messages(seen.session_id)
    json.loads((server.data_dir / "chat_sessions" / f"{seen.session_id}.json").read_text())
    if not seen.events:
        return  # nothing was acknowledged
    assert messages[0]["content"] == message
    for called in seen.of("tool_call"):
        asked = [call["id"] for m in messages for call in m.get("tool_calls") or []]
        answered = [m["tool_call_id"] for m in messages if m["role"] == "tool"]
        assert asked.count(called["tool_call_id"]) == 1
        assert answered.count(called["tool_call_id"]) == 1
    complete = seen.of("message_complete")
    if complete:
        [answer] = [m for m in messages if m["message_id"] == complete[0]["message_id"]]
        assert answer["content"] == complete[0]["content"]
        assert "interrupted" not in answer
    elif seen.text.strip() and not seen.of("cancelled"):
        assert messages[-1]["content"].startswith(seen.text.strip())
        if "interrupted" not in messages[-1]:  # it was saved whole just before
            assert messages[-1]["done_reason"] == "stop"


def is_tidy(server):
    """Whether nothing is left of dead processes but what is to be kept.

    Half-written files are kept for an hour: they are made that old.
    """
    sessions = server.data_dir / "chat_sessions"
    torn = list(server.data_dir.rglob("*.tmp"))
    for path in torn:
        with suppress(FileNotFoundError):  # swept, or made whole, just now
            os.utime(path, (0, time.time() - TEMPORARY_FILE_SECONDS))
    left = [path.name for path in torn]
    left += [name for name in os.listdir(sessions / ".claims") if name != "workers"]
    left += list((server.data_dir / ".mochi" / "signals").glob("*"))
    return not left


def kill_workers(workers):
    for worker in workers:
        worker.kill()
    psutil.wait_procs(workers, timeout=60)


def kill_one_worker(server, chance):
    kill_workers([chance.choice(server.web_processes)])


def kill_all_workers(server, chance):
    kill_workers(server.web_processes)


def kill_the_whole_group(server, chance):
    server.kill()


@pytest.mark.soak
@pytest.mark.timeout(120 + 20 * ROUNDS)
def test_at_any_moment_nothing_acknowledged_is_lost(start, script, eventually):
    print(f"MOCHI_E2E_CRASH_SEED={SEED}")
    chance = random.Random(SEED)
    server = start("--workers", "2")
    for number in range(ROUNDS):
        kill = [kill_one_worker, kill_all_workers, kill_the_whole_group][number % 3]
        chat = server.chat()
        sessions = [chat.new_session() for _ in range(CLIENTS)]
        calls = {"tool_call": [{"name": "nope", "args": {}}, {"name": "no", "args": {}}]}
        texts = [f"word{n} " for n in range(chance.randrange(40))]
        message = script(
            *[calls] * chance.randrange(3), texts, per_request=True, words_per_second=500
        )
        with ThreadPoolExecutor(CLIENTS) as pool:
            turns = [pool.submit(talk, server, session_id, message) for session_id in sessions]
            time.sleep(chance.random() * 0.25)
            kill(server, chance)
            if kill is kill_the_whole_group:
                server = start("--workers", "2")
            seen = [turn.result(timeout=60) for turn in turns]
        chat = server.chat()
        assert chat.http.get(f"/chat/{sessions[0]}/stream").status_code in {200, 204}
        assert chat.say(sessions[0], script("alive"))[-2].name == "message_complete"
        for turn in seen[1:]:
            check(server, chat, turn, message)
        for turn in seen:
            events = chat.reattach(turn.session_id)
            assert events is None or events[-1].name == "done"
            assert chat.say(turn.session_id, script("alive"))[-2].name == "message_complete"
    eventually(lambda: is_tidy(server))


@pytest.fixture(scope="module")
def wreck(start_once, script_once):
    """Return (data directory, session id, the text seen) of a server that was killed."""
    server = start_once()
    chat = server.chat()
    session_id = chat.new_session()
    message = script_once(["Half ", "an ", "answer"], stall_after=2, stall_seconds=60)
    with chat.stream(session_id, message=message) as events:
        seen = [next(events) for _ in range(3)]
        server.kill()
    return server.data_dir, session_id, "".join(event.data["content"] for event in seen[1:])


@pytest.fixture(scope="module")
def script_once():
    def write(texts, **keys):
        block = {"messages": [{"text_message": {"text": texts}}], **keys}
        return f"<|instruction_start|>{json.dumps(block)}<|instruction_end|>"

    return write


@pytest.fixture
def copy_of_wreck(wreck, tmp_path):
    """Return the wreck, to be done with as one likes."""
    shutil.copytree(wreck[0], tmp_path / "copy", symlinks=True)
    return tmp_path / "copy", *wreck[1:]


def sealers(data_dir, *points):
    """Seal in as many processes at once; return their exit codes."""
    processes = [
        subprocess.Popen(
            [sys.executable, str(SEALER), str(data_dir), point],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for point in points
    ]
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)
    return [process.returncode for process in processes]


def check_sealed_once(data_dir, session_id, text):
    session = json.loads((data_dir / "chat_sessions" / f"{session_id}.json").read_text())
    user, answer = session["messages"]
    assert (user["role"], answer["content"], answer["interrupted"]) == ("user", text.strip(), True)
    assert os.listdir(data_dir / "chat_sessions" / ".claims") == ["workers"]
    [journal] = (data_dir / ".mochi" / "turns" / session_id).iterdir()
    _, *entries = [json.loads(line) for line in journal.read_text().splitlines()]
    numbers = [entry["n"] for entry in entries if entry["n"]]
    assert numbers == list(range(1, len(numbers) + 1))
    assert [entry["event"] for entry in entries][-2:] == ["error", "done"]
    assert [entry["event"] for entry in entries].count("error") == 1


@pytest.mark.parametrize("point", POINTS)
def test_a_sealer_that_dies_leaves_nothing_twice(copy_of_wreck, point):
    data_dir, session_id, text = copy_of_wreck
    assert sealers(data_dir, point) == [9]
    json.loads((data_dir / "chat_sessions" / f"{session_id}.json").read_text())
    assert sealers(data_dir, point)[0] in {0, 9}
    assert sealers(data_dir, "nowhere", "nowhere") == [0, 0]
    check_sealed_once(data_dir, session_id, text)


def test_many_sealers_at_once_seal_once(copy_of_wreck):
    data_dir, session_id, text = copy_of_wreck
    assert sealers(data_dir, *["nowhere"] * 4) == [0] * 4
    check_sealed_once(data_dir, session_id, text)


def test_one_pass_seals_all_there_is(copy_of_wreck):
    data_dir, session_id, text = copy_of_wreck
    recovery = TurnRecovery(
        repository=FileSessionRepository(data_dir / "chat_sessions"),
        journal=FileTurnJournal(data_dir / ".mochi" / "turns"),
    )
    recovery.seal_all()
    check_sealed_once(data_dir, session_id, text)
