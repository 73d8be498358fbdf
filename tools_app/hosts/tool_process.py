"""Runs a tool process: imports users' modules and calls their functions, one at a time."""

import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import msgspec

from sessions_app.surrogates import join_surrogates
from tools_app import processes
from tools_app.errors import EXECUTION_FAILED
from tools_app.functions.progress import progress
from tools_app.hosts.answers import Reply, answer, failure
from tools_app.hosts.messages import (
    HEADER,
    MAX_REQUEST_BYTES,
    Answer,
    Call,
    Failed,
    Load,
    Loaded,
    Loading,
    Request,
    frame,
    requests,
)
from tools_app.toolset import InvalidTool, ToolProgress

# Encoded while there is memory for it.
_OUT_OF_MEMORY = frame(Failed(message="MemoryError", code=EXECUTION_FAILED, worn=True))


def work(calls: socket.socket) -> None:
    """Serve the server's requests until it closes the call socket."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Line-buffered, so that output is logged at once; and any character can be written.
    sys.stdout = sys.__stdout__ = _text_stream(1)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _text_stream(2)  # type: ignore[misc]
    _ToolProcess(calls).run()


def _text_stream(descriptor: int) -> TextIOWrapper:
    return open(
        descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )


class _ToolProcess:
    def __init__(self, calls: socket.socket) -> None:
        self._calls = calls
        self._requests = calls.makefile("rb")
        self._streams = (sys.stdout, sys.stderr)  # a function may replace them
        self._directory = Path.cwd()
        self._process = os.getpid()
        self._functions: Mapping[str, Callable[..., Any]] = {}
        self._invalid: Sequence[InvalidTool] = ()

    def run(self) -> None:
        while (body := self._receive()) is not None:
            request = requests.decode(body)
            reply = self._reply(request)
            if os.getpid() != self._process:  # a function forked, and this is its child
                os._exit(0)
            for stream in self._streams:
                with suppress(ValueError, OSError):  # a function has closed it
                    stream.flush()
            self._send(reply.answer, reply.files)

    def _reply(self, request: Request) -> Reply:
        if isinstance(request, Load):
            return Reply(self._load(request))
        return self._call(request)

    def _load(self, load: Load) -> Loaded | Failed:
        os.environ.update(load.variables)
        processes.limit_resources(load.memory_bytes)
        # Whatever may run users' code comes after the limits.
        from tools_app.functions.loading import load_folder  # noqa: PLC0415 - preloaded

        try:
            loaded = load_folder(
                Path(load.folder),
                skip=load.skip,
                on_loading=lambda module: self._send(Loading(module=join_surrogates(module))),
            )
            self._functions, self._invalid = loaded.functions, loaded.invalid
            if not load.report:
                return Loaded()
            self._send(Loading(module=""))  # from here on no module is at fault
            return Loaded(report=msgspec.Raw(msgspec.json.encode(loaded.report())))
        except BaseException as error:  # noqa: BLE001 - reported to the server
            return failure(error)

    def _call(self, call: Call) -> Reply:
        function = self._functions.get(call.function)
        if function is None:
            missing = self._why_missing(call.function)
            return Reply(Failed(message=missing, code=EXECUTION_FAILED))
        with suppress(OSError):  # relative paths must not depend on earlier calls
            os.chdir(self._directory)
        with progress.reported_to(self._send):
            return answer(call.function, function, call.arguments)

    def _why_missing(self, name: str) -> str:
        for entry in self._invalid:
            if entry.name == name:
                return join_surrogates(f"{name} can't be used: {entry.reason}")
        return join_surrogates(f"There is no function {name!r} any more.")

    def _receive(self) -> bytes | None:
        """Return the next request; None when the server has closed the socket."""
        head = self._requests.read(HEADER.size)
        if len(head) < HEADER.size:
            return None
        (length,) = HEADER.unpack(head)
        if length > MAX_REQUEST_BYTES:
            raise ValueError(f"a request of {length} bytes")
        body = self._requests.read(length)
        return body if len(body) == length else None

    def _send(
        self, message: Loading | Loaded | Answer | ToolProgress, files: Sequence[bytes] = ()
    ) -> None:
        try:
            data = frame(message)
        except MemoryError:
            data, files = _OUT_OF_MEMORY, ()
        self._calls.sendall(data)
        for file in files:
            self._calls.sendall(HEADER.pack(len(file)))
            self._calls.sendall(file)
