"""Three nodes in network namespaces of their own, which are cut off and killed as machines are.

Run as ``unshare -n -m python -m tests.cluster.partitions DIRECTORY``: what it makes is seen by
nobody outside. A node has its own addresses, and no process id of it means anything to another.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import redis

from tests.cluster.invariants import check_stream, check_told, frames_of
from tests.cluster.nodes import Listener
from tests.cluster.servers import BUCKET, KEYS, RedisServer, StoreServer
from tests.functional.conftest import LISTENING, Chat, block
from tests.functional.processes import ROOT

NETWORK = "10.77.0"
GATE = f"{NETWORK}.254"
TOKEN = "the-token-of-all-nodes"
PIECES = ["Half ", "an ", "answer, "]


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def inside(number: int, *command: str) -> list[str]:
    return ["ip", "netns", "exec", f"node{number}", *command]


def build() -> None:
    """Make a bridge, and three namespaces with a cable to it."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "bridge", "type", "bridge")
    run("ip", "addr", "add", f"{GATE}/24", "dev", "bridge")
    run("ip", "link", "set", "bridge", "up")
    Path("/run/netns").mkdir(parents=True, exist_ok=True)
    run("mount", "-t", "tmpfs", "none", "/run/netns")
    for number in (1, 2, 3):
        run("ip", "netns", "add", f"node{number}")
        run("ip", "link", "add", f"cable{number}", "type", "veth", "peer", "name", f"plug{number}")
        run("ip", "link", "set", f"plug{number}", "netns", f"node{number}")
        run("ip", "link", "set", f"cable{number}", "master", "bridge", "up")
        address = f"{NETWORK}.{number}/24"
        run(*inside(number, "ip", "addr", "add", address, "dev", f"plug{number}"))
        run(*inside(number, "ip", "link", "set", f"plug{number}", "up"))
        run(*inside(number, "ip", "link", "set", "lo", "up"))


class Machine:
    """A node whose first process has the id 1."""

    def __init__(self, number: int, directory: Path, store: StoreServer) -> None:
        self.number = number
        folder = directory / f"data{number}"
        folder.mkdir()
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("MOCHI_", "DJANGO_"))}
        environment = {
            **kept,
            **KEYS,
            "PYTHONPATH": str(ROOT),
            "MOCHI_DATA_DIR": str(folder),
            "MOCHI_TEST_MODE": "true",
            "MOCHI_BACKGROUND_WORKER": "false",
            "MOCHI_API_TOKEN": TOKEN,
            "MOCHI_SECRET_KEY": "the same on every node of a cluster, and long enough for Django",
            "MOCHI_LEASE_SECONDS": "2",
            "MOCHI_JOURNAL_TIMEOUT_SECONDS": "3",
            "MOCHI_JOURNAL_URL": f"redis://{GATE}:6379/0",
            "MOCHI_SESSIONS_URL": f"s3://{BUCKET}/parted?endpoint={store.url}&region=us-east-1",
        }
        server = (sys.executable, "-m", "mochi_server", "--port", "8000")
        with (directory / f"log{number}").open("w") as log:
            self.process = subprocess.Popen(
                inside(
                    number,
                    *("unshare", "-pf", "--mount-proc", "--kill-child"),
                    *(*server, "--host", f"{NETWORK}.{number}"),
                ),
                env=environment,
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert LISTENING.match(line), (line, (directory / f"log{number}").read_text()[-3000:])

    def chat(self) -> Chat:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return Chat(f"http://{NETWORK}.{self.number}:8000", headers=headers)

    def unplug(self) -> None:
        run("ip", "link", "set", f"cable{self.number}", "down")

    def plug(self) -> None:
        run("ip", "link", "set", f"cable{self.number}", "up")

    def kill(self) -> None:
        """Kill the first process of its namespace, and so all of them at once."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(60)


def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


def begin(owner: Machine, other: Machine) -> tuple[str, str, Listener, Listener]:
    """Return (session, question, who asked, who listens elsewhere) of a turn that never ends."""
    session_id = other.chat().new_session()
    texts = {"messages": [{"text_message": {"text": [*PIECES, "and more"]}}]}
    script = json.dumps({**texts, "stall_after": len(PIECES), "stall_seconds": 600})
    question = f"<|instruction_start|>{script}<|instruction_end|>"
    turn = Listener(owner.chat(), session_id, {"message": question, "detached": True})
    turn.wait_for("content_delta", len(PIECES))
    follower = Listener(other.chat(), session_id)
    follower.wait_for("content_delta", len(PIECES))
    return session_id, question, turn, follower


def check(machines: list[Machine], session_id: str, question: str, *told: Listener) -> None:
    versions = [machine.chat().messages(session_id) for machine in machines]
    assert versions == [versions[0]] * len(versions), versions
    streams = [frames_of(machine.chat(), session_id) for machine in machines]
    assert streams == [streams[0]] * len(streams), streams
    for listener in told:
        check_stream(listener.events)
        check_told(versions[0], listener, question)
    assert versions[0][-1]["interrupted"] is True


def part(machines: list[Machine], connection: "redis.Redis") -> None:
    """Cut a node off in mid-turn: others end its turn, and it is one of them again when healed."""
    owner, other, third = machines
    session_id, question, turn, follower = begin(owner, other)
    owner.unplug()
    follower.wait()
    assert follower.names[-2:] == ["error", "done"], follower.names
    check([other, third], session_id, question, follower)
    owner.plug()
    wait_until(lambda: not connection.smembers("mochi:unended"))

    def works() -> bool:
        with suppress(Exception):
            again = Listener(owner.chat(), session_id, {"message": block("alive")})
            again.wait()
            return again.text == "alive"
        return False

    wait_until(works)
    turn.join(60)
    versions = [machine.chat().messages(session_id) for machine in machines]
    assert versions == [versions[0]] * 3, versions
    assert [m["content"] for m in versions[0]].count(question) == 1


def die(machines: list[Machine], connection: "redis.Redis") -> None:
    """Kill all processes of a node in mid-turn."""
    owner, other, third = machines
    session_id, question, turn, follower = begin(owner, other)
    owner.kill()
    follower.wait()
    assert follower.names[-2:] == ["error", "done"], follower.names
    check([other, third], session_id, question, turn, follower)
    wait_until(lambda: not connection.smembers("mochi:unended"))


def main() -> None:
    """Do both."""
    directory = Path(sys.argv[1])
    build()
    server = RedisServer(
        directory / "redis", "--port", "6379", "--bind", GATE, "--protected-mode", "no"
    )
    store = StoreServer(host=GATE)
    machines: list[Machine] = []
    try:
        machines += [Machine(number, directory, store) for number in (1, 2, 3)]
        part(machines, server.client())
        die(machines, server.client())
    finally:
        for machine in machines:
            machine.kill()
        server.kill()
        store.kill()


if __name__ == "__main__":
    main()
