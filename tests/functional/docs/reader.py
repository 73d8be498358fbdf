"""Somebody who followed README, and types what a page shows, in a home of their own."""

import base64
import json
import os
import re
import signal
import subprocess
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import httpx

from mochi_project import cli
from mochi_server.sessions import SessionManager

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILE = re.compile(
    r"<!-- file: ((?:tools|agents)/\S+) -->\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL
)
LISTENING = re.compile(r"^mochi-server listening on (?:http://(\S+)|unix:(\S+))$")
SHOWN_ADDRESS = re.compile(r"\b(?:localhost|127\.0\.0\.1):(?:8000|5099)\b")
SHOWN_PORT = re.compile(r"(?<=--port )\d+")
SHOWN_SESSION = re.compile(r"\b[0-9a-f]{10}\b")
SESSION = re.compile(r'"session_id": ?"([0-9a-f]{10})"')
QUESTION = re.compile(r"\bconf_[0-9a-f]{32}\b")
ATTACHMENT = re.compile(r"\bsha256:[0-9a-f]{64}\b")
SHOWN_VISION_MODEL = "qwen3-vl:8b"
VISION_MODEL = "scripted-vision"
SECONDS = 100
CURLRC = "fail-with-body\nsilent\nshow-error\n"
STAND_INS = {
    "git": "echo '+ a line that was added'",
    "sudo": "echo 'nothing is changed outside of the home' >&2; exit 1",
    "docker": "echo 'no container is started' >&2; exit 1",
}
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ"
    "RU5ErkJggg=="
)


def commands_of(page: str) -> Iterator[str]:
    """Yield what a page shows to be typed, command by command."""
    for block in BLOCK.findall(page):
        command = ""
        for line in block.splitlines(keepends=True):
            command += line
            if is_whole(command):
                yield command.strip()
                command = ""
        assert not command, f"the block ends within a command: {command}"


def is_whole(command: str) -> bool:
    """Return whether a shell would not wait for a further line."""
    if command.endswith("\\\n"):
        return False
    checked = subprocess.run(["bash", "-n", "-c", command], capture_output=True, check=False)
    return checked.returncode == 0


def serves(command: str) -> bool:
    """Return whether a command runs until it is stopped."""
    _, program, arguments = f"{command} ".partition("mochi-server ")
    words = arguments.partition("#")[0].split()
    commands = [word for word in words if word in cli.commands()]
    return bool(program) and commands in ([], ["qcluster"]) and "--version" not in words


class Reader:
    """Types commands one after another, with a server and streams in other terminals.

    Ids, ports and addresses that a page shows are replaced by those that its commands printed.

    Attributes:
        home: Their home, with their conversations in `my-chats`, where they are.
        env: The environment of their shell.
    """

    def __init__(self, home: Path, env: Mapping[str, str]) -> None:
        self.home = home
        self.place = home / "my-chats"
        self.place.mkdir(parents=True)
        self.env = {**env, "HOME": str(home), "MOCHI_DATA_DIR": str(self.place)}
        self._session = SessionManager(self.place / "chat_sessions").create("qwen3:14b").session_id
        self._question = self._attachment = self._address = self._stream = ""
        self._answered = True
        self._server: subprocess.Popen[str] | None = None
        self._others: list[subprocess.Popen[str]] = []
        self._log = home / "log"
        self._prepare()

    def _prepare(self) -> None:
        (self.home / ".curlrc").write_text(CURLRC)
        (self.place / "cat.png").write_bytes(PIXEL)
        for name in ("secret", "token"):
            (self.place / name).write_text("5e" * 32)
        exported = self.home / "Downloads" / "chatgpt-export.zip"
        exported.parent.mkdir()
        conversations = json.loads((ROOT / "tests/fixtures/imports/chatgpt.json").read_bytes())
        with zipfile.ZipFile(exported, "w") as archive:
            archive.writestr("conversations.json", json.dumps(conversations[:1]))
        programs = self.home / "bin"
        programs.mkdir()
        for name, script in STAND_INS.items():
            (programs / name).write_text(f"#!/bin/sh\n{script}\n")
            (programs / name).chmod(0o755)
        self.env["PATH"] = f"{programs}{os.pathsep}{self.env['PATH']}"

    def saves_files_of(self, page: str) -> None:
        """Save the tools and agents that a page shows."""
        for name, text in FILE.findall(page):
            path = self.place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def types(self, command: str, *, where: Path | None = None) -> None:
        """Type a command, and fail if it does not do its work."""
        where = where or self.place
        if "confirm-tool" in command and self._answered:  # another way to answer the question
            self._stream_until_asked(self._stream, where)
        command = self._with_what_was_printed(command)
        if command.startswith("export "):
            self._export(command, where)
        elif "qcluster" in command:
            self._start_worker(command, where)
        elif serves(command):
            self._start(command.rstrip(" &"), where)
        elif command.startswith("curl -N"):
            self._stream = command
            self._stream_until_asked(command, where)
        else:
            self._run(command, where)

    def leaves(self) -> None:
        """Stop what runs."""
        for process in [self._server, *self._others]:
            if process is not None:
                stop(process)

    def _with_what_was_printed(self, command: str) -> str:
        if SHOWN_ADDRESS.search(command) and not self._address:
            self._start("mochi-server", self.place)
        command = SHOWN_ADDRESS.sub(self._address, command)
        command = SHOWN_PORT.sub("0", command).replace(SHOWN_VISION_MODEL, VISION_MODEL)
        command = QUESTION.sub(self._question, command)
        command = ATTACHMENT.sub(self._attachment, command)
        return SHOWN_SESSION.sub(self._session, command)

    def _note(self, printed: str) -> None:
        for session in SESSION.findall(printed):
            self._session = session
        for question in QUESTION.findall(printed):
            self._question = question
        for attachment in ATTACHMENT.findall(printed):
            self._attachment = attachment

    def _run(self, command: str, where: Path) -> None:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=where,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}{self.log}"
        self._note(done.stdout)
        if "confirm-tool" in command:
            self._answered = True
            while self._others:
                with self._others.pop() as stream:
                    assert stream.stdout
                    assert "event: done" in stream.stdout.read()

    def _export(self, command: str, where: Path) -> None:
        done = subprocess.run(
            ["bash", "-c", f"{command}\nenv -0"],
            cwd=where,
            env=self.env,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        self.env |= dict(line.split("=", 1) for line in done.stdout.split("\0") if line)

    def _stream_until_asked(self, command: str, where: Path) -> None:
        stream = self._begin(command, where)
        assert stream.stdout
        printed = ""
        for line in stream.stdout:
            printed += line
            if QUESTION.search(line):
                self._others.append(stream)
                self._answered = False
                break
        else:
            stop(stream)
            assert stream.returncode == 0, f"{command}\n{printed}\n{self.log}"
            assert "event: done" in printed
        self._note(printed)

    def _start(self, command: str, where: Path) -> None:
        """Start a server instead of the one before, and ask for its health."""
        if self._server is not None:
            stop(self._server)
        self._server = self._begin(command, where)
        assert self._server.stdout
        listening = next(filter(None, map(LISTENING.match, self._server.stdout)), None)
        assert listening, f"{command}\n{self.log}"
        address, socket = listening.groups()
        self._address = (address or "localhost").replace("0.0.0.0", "127.0.0.1")
        with self._client(socket) as client:
            assert client.get("/health").status_code == 200

    def _start_worker(self, command: str, where: Path) -> None:
        self._others.append(self._begin(command, where))
        deadline = time.monotonic() + SECONDS
        with self._client() as client:
            while not client.get("/health").json()["worker_alive"]:
                assert time.monotonic() < deadline, f"{command}\n{self.log}"
                time.sleep(0.05)

    def _client(self, socket: str | None = None) -> httpx.Client:
        return httpx.Client(
            base_url=f"http://{self._address}/api/v1",
            headers={"Authorization": f"Bearer {self.env.get('MOCHI_API_TOKEN', 'none')}"},
            transport=httpx.HTTPTransport(uds=socket),
            trust_env=False,
            timeout=SECONDS,
        )

    def _begin(self, command: str, where: Path) -> subprocess.Popen[str]:
        with self._log.open("a") as log:
            return subprocess.Popen(
                ["bash", "-c", command],
                cwd=where,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    @property
    def log(self) -> str:
        """What servers and streams reported."""
        return self._log.read_text() if self._log.exists() else ""


def stop(process: subprocess.Popen[str]) -> None:
    """End a command, and what it started."""
    with suppress(ProcessLookupError):  # it has ended by itself
        os.killpg(process.pid, signal.SIGTERM)
    process.wait(SECONDS)
    if process.stdout:
        process.stdout.close()
