"""Runs uvicorn in one process, on sockets bound before the application is imported."""

import asyncio
import contextlib
import errno
import gc
import resource
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import uvicorn

from mochi_project.app import current_pool
from mochi_project.configuration.config import ServerSettings
from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.process.unix_socket import listen_on_path, removed_at_end
from mochi_project.uvicorn_protocol.config import ServerConfig

APPLICATION = "mochi_project.asgi:application"
BACKLOG = 2048
SWITCH_SECONDS = 0.001
"""The GIL switch interval in seconds. Python's 5 ms would delay every stream while a thread reads
or plans a long session."""
COLLECTION_THRESHOLDS = (700, 10, 1_000)
"""For ``gc.set_threshold``. Only the last differs from Python's: a collection of all objects takes
90 to 145 ms with 400 streams, which all wait, and finds hardly anything (docs/decisions/0120)."""
MAX_OPEN_FILES = 65_536
MOST_THREADS = 64
"""The threads of ``asyncio.to_thread``, made as they are needed. Python's default of the cores and
four is used up by as many requests that wait for the lock of one session."""


class WebServer(uvicorn.Server):
    """Calls back when it listens, and ends with exit code 0 on a stop signal."""

    def __init__(self, config: ServerConfig, *, on_listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._config = config
        self._on_listening = on_listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, listen, then call ``on_listening`` in the running loop."""
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(MOST_THREADS))
        await super().startup(sockets=sockets)
        gc.set_threshold(*COLLECTION_THRESHOLDS)
        gc.enable()  # disabled by the command during imports
        sys.setswitchinterval(SWITCH_SECONDS)
        if self.started:
            self._on_listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End running turns, however the server was stopped, then close."""
        await _end_turns()
        self._config.server_stops = True
        await super().shutdown(sockets=sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals while serving; uvicorn would raise them again after a clean stop."""
        with super().capture_signals():
            yield
            # private: Server._captured_signals, the only way. Price: this line; without it a clean
            # stop would have the exit code of a signal.
            self._captured_signals.clear()


async def _end_turns() -> None:
    from chat.service import ChatService  # noqa: PLC0415 - the application's imports

    pool = current_pool()
    grace_seconds = pool.shared.get(ServerSettings).shutdown_grace_seconds
    chats = [each.get(ChatService) for each in pool.loaded().values()]
    await asyncio.gather(*(chat.shutdown(grace_seconds) for chat in chats))


def server_config(settings: ServerSettings) -> ServerConfig:
    """Return uvicorn's configuration: uvloop if installed, and bounded headers."""
    return ServerConfig(
        APPLICATION,
        host=settings.host,
        port=settings.port,
        loop="auto",
        http="mochi_project.uvicorn_protocol.protocol:BoundedHttpToolsProtocol",
        ws="none",
        lifespan="on",
        interface="asgi3",
        log_config=None,  # mochi_project.configuration.logs, applied by Django
        access_log=settings.log_level == "DEBUG",
        server_header=False,
        proxy_headers=False,  # the guard decides which to trust (mochi_project/guard/proxies.py)
        backlog=BACKLOG,
        write_timeout=settings.write_timeout_seconds,
    )


@contextlib.contextmanager
def listening(settings: ServerSettings) -> Iterator[tuple[list[socket.socket], str]]:
    """Listen as configured; yield the sockets and the address; remove a Unix socket at the end.

    Raises:
        ConfigurationError: The address or path can't be used; the message says what to change.
    """
    path = settings.resolved_unix_socket
    if path is None:
        sockets = listen(settings.host, settings.port)
        yield sockets, url_of(settings.host, sockets)
        return
    opened = listen_on_path(path, backlog=BACKLOG, mode=int(settings.unix_socket_mode, 8))
    with removed_at_end(path):
        yield [opened], f"unix:{path}"


def listen(host: str, port: int) -> list[socket.socket]:
    """Return listening sockets on every address of ``host``; port 0 takes a free one.

    They listen immediately: a taken port is noticed before seconds of imports, and clients that
    connect early are served as soon as the application runs.

    Raises:
        ConfigurationError: The address can't be used; the message says what to change.
    """
    sockets: list[socket.socket] = []
    try:
        for family, address in _addresses(host, port):
            chosen = sockets[0].getsockname()[1] if sockets else port
            sockets.append(_listen_on(family, address, chosen))
    except OSError as error:
        for opened in sockets:
            opened.close()
        raise ConfigurationError(_why_not(host, port, error)) from error
    return sockets


def allow_many_connections() -> None:
    """Raise this process's soft limit of open files to the hard limit.

    A turn needs three (client, model, journal), so the usual soft limit of 1024 allows 340 turns.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):  # macOS has a limit that it does not report
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def url_of(host: str, sockets: Sequence[socket.socket]) -> str:
    """Return the URL at which a server on these sockets is reached."""
    port = sockets[0].getsockname()[1]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _addresses(host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
    found = socket.getaddrinfo(
        host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    unique = dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found)
    # IPv4 first: "localhost" may name an IPv6 address that the machine does not have.
    return sorted(unique, key=lambda item: item[0] != socket.AF_INET)


def _listen_on(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.bind((address, port))
        opened.listen(BACKLOG)
    except BaseException:
        opened.close()
        raise
    return opened


def _why_not(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} on {host} is in use; stop what uses it or choose another port "
            "with --port or MOCHI_PORT"
        )
    if error.errno == errno.EACCES:
        return f"port {port} needs more rights; choose one above 1023 with --port or MOCHI_PORT"
    why = error.strerror or str(error)
    return f"can't listen on {host}:{port} (--host, MOCHI_HOST): {why}"
