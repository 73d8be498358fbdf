"""Starts ``mochi-server`` and ``manage.py`` from a process that has imported what they need.

Importing Django, pydantic and our own modules takes most of the processor time of a short command,
and tests start hundreds. This program imports them once for each pytest process, and forks: what it
starts is a process of its own with its own environment, directory, files and end. Tests of the
start itself, and of memory, start the interpreter (``subprocess``).
"""

import fcntl
import gc
import importlib
import importlib.util
import io
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import django.conf

from tests.functional import zygote

ROOT = Path(__file__).parents[2]
MODULE = "mochi_server"
PATCHES = {str(ROOT / "tests/functional/durability" / name) for name in ("faulty", "patched")}
"""Folders for ``PYTHONPATH`` whose ``sitecustomize.py`` a forked process runs as well."""
MANAGE = str(ROOT / "manage.py")
MODULES = (
    "agents_app.schemas",
    "anyio.to_thread",
    "chat.approvals.schemas",
    "chat.http.context_schemas",
    "chat.http.schemas",
    "chat.http.status",
    "chat.summaries.schemas",
    "django.core.management",
    "django.core.servers.basehttp",
    "django.db.backends.sqlite3.base",
    "django.http",
    "django.test",
    "django.urls",
    "django.views.debug",
    "httptools",
    "httpx",
    "mochi_project.configuration.logs",
    "mochi_project.fast_django.handler",
    "mochi_project.guard.guard",
    "mochi_project.http.arriving_file",
    "mochi_project.http.health",
    "mochi_project.http.metrics_page",
    "mochi_project.http.openapi",
    "mochi_project.http.playground",
    "mochi_project.console.command",
    "mochi_project.process.lifespan",
    "mochi_project.process.server",
    "mochi_project.process.startup",
    "mochi_project.process.trust_question",
    "mochi_project.process.web_workers",
    "terminal_app.chat_loop",
    "models_app.default_model",
    "terminal_app.options",
    "mochi_project.uvicorn_protocol.protocol",
    "mochi_project.services",
    "models_app.ollama.clients",
    "models_app.profile_schemas",
    "models_app.schemas",
    "scripted_app.server",
    "msgspec.json",
    "multiprocessing.sharedctypes",
    "ninja",
    "ollama",
    "orjson",
    "prompt_toolkit",
    "prompts_app.schemas",
    "psutil",
    "pydantic.networks",
    "rich.markdown",
    "rich.table",
    "rich.traceback",
    "sessions_app.http.deletion_schemas",
    "sessions_app.http.import_schemas",
    "sessions_app.http.list_schemas",
    "sessions_app.http.request_schemas",
    "search_app.schemas",
    "search_app.snippets",
    "search_app.search_request",
    "transfer_app.exporting",
    "transfer_app.uploaded",
    "structlog.dev",
    "structlog.stdlib",
    "tools_app.schemas",
    "usage_app.budgets.schemas",
    "usage_app.schemas",
    "uvicorn.protocols.http.httptools_impl",
    "uvloop",
    "yaml",
)
"""What is imported beforehand. No settings: they can't be read here, where Django has none."""
TOOL_MODULES = (
    "tools_app.functions.loading",
    "tools_app.functions.schema",
    "tools_app.hosts.answers",
    "tools_app.hosts.fork_server",
    "tools_app.hosts.tool_process",
)
"""What is imported where what forks tools is forked: nothing that makes its forks more costly."""

_LONGEST_REQUEST = 1 << 20
_MOST_DESCRIPTORS = 16
_ABOVE_ALL = 512
"""Where descriptors wait until they get their numbers, which others may have until then."""


def take_terminal() -> None:
    """Make stdin, a terminal, this process's own: CTRL-C is for it."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def serve(control: socket.socket) -> dict[str, Any] | None:
    """Fork for every request; return the request in the child, None when pytest has ended."""
    running: dict[int, socket.socket] = {}
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    selector = selectors.DefaultSelector()
    selector.register(control, selectors.EVENT_READ)
    selector.register(woken, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is woken:
                woken.recv(4096)
                _report_ends(running)
                continue
            data, descriptors, _, _ = socket.recv_fds(control, _LONGEST_REQUEST, _MOST_DESCRIPTORS)
            if not data:
                return None
            connection = socket.socket(fileno=descriptors[0])
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                selector.close()
                for each in (control, woken, wake, connection, *running.values()):
                    each.close()
                request = json.loads(data)
                above = max(_ABOVE_ALL, *request["numbers"]) + 1
                kept = [fcntl.fcntl(each, fcntl.F_DUPFD, above) for each in descriptors[1:]]
                for each in descriptors[1:]:
                    os.close(each)
                return {**request, "descriptors": kept}
            for descriptor in descriptors[1:]:
                os.close(descriptor)
            running[pid] = connection
            connection.send(str(pid).encode())


def _report_ends(running: dict[int, socket.socket]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        with running.pop(pid) as connection, suppress(OSError):  # nobody may wait for it
            connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def become(request: dict[str, Any]) -> None:
    """Give this process what the request asks for, and run its command."""
    if request.get("has_zygote"):
        web_process = zygote.prepare(request["descriptors"])
        if web_process is not None:
            become(web_process)
            return
    numbers = request.get("numbers", range(3))
    for number, descriptor in zip(numbers, request["descriptors"], strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if request["takes_terminal"]:
        take_terminal()
    if request.get("new_session"):
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(
            open(number, mode),  # noqa: SIM115 - closed by the interpreter
            encoding="utf-8",
            errors="backslashreplace" if number == 2 else "surrogateescape",
            line_buffering=number == 2 or os.isatty(number),
        )
        for number, mode in ((0, "rb"), (1, "wb"), (2, "wb"))
    )
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    patches = PATCHES.intersection(os.environ.get("PYTHONPATH", "").split(os.pathsep))
    if patches:
        sys.path[:0] = patches
        sys.modules.pop("sitecustomize", None)  # Debian's Python has one
        importlib.import_module("sitecustomize")
    command: list[str] = request["command"]
    if command[0] == MANAGE:
        sys.argv = command
        runpy.run_path(MANAGE, run_name="__main__")
        return
    if command[0] == "-P":
        del command[0]
    else:
        sys.path.insert(0, request["cwd"])
    if command[0] == "-c":
        sys.argv = ["-c", *command[2:]]
        exec(command[1], {"__name__": "__main__"})
        return
    module = command[1]
    sys.argv = [module, *command[2:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def import_ninja_settings() -> None:
    """Import ``ninja.conf``, which reads Django's settings: ours have none of Ninja's."""
    folder = Path(importlib.util.find_spec("ninja").origin).parent
    spec = importlib.util.spec_from_file_location("ninja.conf", folder / "conf.py")
    module = importlib.util.module_from_spec(spec)
    importlib.import_module("django.test.signals")  # with what has to get the real settings
    settings = django.conf.settings
    django.conf.settings = SimpleNamespace(configured=False)
    try:
        spec.loader.exec_module(module)
    finally:
        django.conf.settings = settings
    sys.modules["ninja.conf"] = module


def import_modules() -> None:
    """Import what servers and commands need."""
    import_ninja_settings()
    for name in MODULES:
        importlib.import_module(name)


def main() -> None:
    """Import the libraries, then serve."""
    gc.disable()
    if sys.argv[2] == "tools":
        for name in TOOL_MODULES:
            importlib.import_module(name)
    else:
        import_modules()
    gc.freeze()
    control = socket.socket(fileno=int(sys.argv[1]))
    request = serve(control)
    if request is not None:
        gc.enable()
        become(request)


if __name__ == "__main__":
    main()
