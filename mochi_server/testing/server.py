"""Starts and stops a server in test mode, and steers its models (docs/decisions/0055)."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Unpack

from mochi_project.configuration.child_environment import with_own_code
from mochi_project.configuration.setting_arguments import SettingArguments
from mochi_project.embedding import as_variables
from mochi_server.testing.client import MochiClient
from mochi_server.testing.replies import Reply, ToolCall
from scripted_app.replies import Instruction
from scripted_app.thread import ScriptedModelThread
from sessions_app.decoding import convert_to

MODEL = "qwen3:14b"
"""The scripted model that thinks and calls tools."""

_LISTENING = re.compile(r"mochi-server listening on (http://\S+)")
_STOP_SECONDS = 10
_DEFAULTS: SettingArguments = {
    "port": 0,
    "background_worker": False,
    "shutdown_grace_seconds": 0,
    "test_words_per_second": 0,
}


class ServerNotStarted(Exception):
    """The server ended before it listened; the message is what it printed."""


class MochiServer:
    """A running server in test mode.

    Attributes:
        url: Its address, without a slash at the end.
        api_url: The address of its routes, ``.../api/v1``.
        data_dir: The directory of its sessions, tools, agents and prompts.
    """

    def __init__(self, url: str, data_dir: Path, model: ScriptedModelThread, log: Path) -> None:
        self.url = url
        self.api_url = f"{url}/api/v1"
        self.data_dir = data_dir
        self._model = model.server
        self._log = log

    def client(self, model: str = MODEL) -> MochiClient:
        """Return a client that streams answers, in sessions of a model."""
        return MochiClient(self.api_url, model)

    def script(self, *replies: str | ToolCall | Reply) -> None:
        """Say what the models answer to their next requests, one reply each.

        A text is ``Reply(text)``, a call is ``Reply(tool_calls=[call])``. Replies are given out in
        the order in which requests come, after those that wait already. Without one a model answers
        as test mode does by itself. Requests for a format (structured answers, summaries) take
        none.

        Raises:
            ValueError: A reply can't be given; the message says why. None is taken then.
        """
        scripts = []
        for given in replies:
            reply = _as_reply(given)
            scripts += [convert_to(reply.as_script(), Instruction)] * reply.times
        self._model.scripts.extend(scripts)

    @property
    def waiting_replies(self) -> int:
        """The number of scripted replies that no request has taken."""
        return len(self._model.scripts)

    @property
    def model_requests(self) -> list[Mapping[str, Any]]:
        """The bodies of the last 100 requests that models got, oldest first."""
        return list(self._model.requests)

    @property
    def log(self) -> str:
        """Return the server's log so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def reset(self) -> None:
        """Forget scripted replies that wait, and the requests that models got. Keeps sessions."""
        self._model.scripts.clear()
        self._model.requests.clear()
        self._model.heads.clear()


@contextmanager
def serve(
    *, data_dir: str | Path | None = None, **settings: Unpack[SettingArguments]
) -> Iterator[MochiServer]:
    """Run a server in test mode, on a free port and in an empty directory that goes with it.

    It is configured by the arguments alone: the environment's ``MOCHI_`` variables and ``.env`` are
    not read. Answers come at once, and no background worker runs, unless the settings say otherwise
    (``test_words_per_second``, ``background_worker``).

    Args:
        data_dir: A directory to use, which is kept.
        **settings: Settings by the lower-case names of their ``MOCHI_`` variables.

    Raises:
        ServerNotStarted: A setting can't be used, or the port is taken.
    """
    chosen: SettingArguments = {**_DEFAULTS, **settings}
    model = ScriptedModelThread(chosen["test_words_per_second"])
    with tempfile.TemporaryDirectory(prefix="mochi-testing-") as temporary:
        place = Path(temporary)
        data = Path(data_dir).resolve() if data_dir is not None else place / "data"
        data.mkdir(parents=True, exist_ok=True)
        url = model.start()
        try:
            variables = as_variables(
                {**chosen, "data_dir": data, "test_mode": True, "test_model_url": url}
            )
            with _process(place, variables) as server_url:
                yield MochiServer(server_url, data, model, place / "log")
        finally:
            model.stop()


def _as_reply(given: str | ToolCall | Reply) -> Reply:
    if isinstance(given, ToolCall):
        return Reply(tool_calls=[given])
    return Reply(given) if isinstance(given, str) else given


@contextmanager
def _process(place: Path, variables: Mapping[str, str]) -> Iterator[str]:
    """Run the server's process, and yield its URL once it listens."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MOCHI_", "DJANGO_"))
    }
    with (place / "log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "mochi_server"],
            cwd=place,
            env=with_own_code({**kept, **variables}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    with process:
        try:
            yield _url_of(process, place / "log")
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _url_of(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    listening = _LISTENING.match(process.stdout.readline())
    if listening is None:
        process.kill()
        process.wait()
        raise ServerNotStarted(log.read_text(encoding="utf-8", errors="replace").strip())
    return listening[1]
