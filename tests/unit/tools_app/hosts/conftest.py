"""Real hosts for functions that a test writes."""

import asyncio
import logging
import os
import textwrap
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from tools_app.hosts.fork_server_client import ForkServerClient
from tools_app.hosts.pool import HostPool
from tools_app.limits import HostLimits, ToolFolder


@pytest.fixture(scope="session")
def fork_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServerClient]:
    """Return a fork server that tests share, since starting one takes the longest."""
    shared = ForkServerClient(tmp_path_factory.mktemp("fork_server"))
    yield shared
    asyncio.run(shared.aclose())


@pytest.fixture
async def own_fork_server(tmp_path: Path) -> AsyncIterator[ForkServerClient]:
    """Return a fork server that the test may kill."""
    own = ForkServerClient(tmp_path)
    yield own
    await own.aclose()


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return what writes a module of the folder of tools, and returns the folder."""

    folder = tmp_path / "tools"
    folder.mkdir()

    def write(code: str, *, name: str = "things") -> Path:
        path = folder / f"{name}.py"
        data = textwrap.dedent(code).encode()
        # Tests write a few lines while their loop runs.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK)
        os.write(descriptor, data)
        os.close(descriptor)
        return folder

    return write


@pytest.fixture
async def serve(
    fork_server: ForkServerClient, write: Callable[..., Path], tmp_path: Path
) -> AsyncIterator[Callable[..., HostPool]]:
    """Return what makes hosts for a module with this code, or for what was written before."""
    pools: list[HostPool] = []

    def serve(
        code: str | None = None, *, fork_server: ForkServerClient = fork_server, **limits: object
    ) -> HostPool:
        folder = ToolFolder(path=write(code) if code else tmp_path / "tools", name="tools")
        pools.append(HostPool(fork_server, folder, msgspec.structs.replace(HostLimits(), **limits)))
        return pools[-1]

    yield serve
    for pool in pools:
        await pool.aclose()


@pytest.fixture
def logged() -> Iterator[list[logging.LogRecord]]:
    """Return the list of what is logged; other handlers don't see it, as they take their time."""
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    logger = logging.getLogger("tools_app.hosts")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    yield records
    logger.removeHandler(handler)
    logger.setLevel(level)
    logger.propagate = True


@pytest.fixture
def until() -> Callable[..., object]:
    """Return what waits for a condition to come true, and returns what it was."""

    async def until(condition: Callable[[], object], *, seconds: float = 60) -> object:
        deadline = time.monotonic() + seconds
        while not (came := await asyncio.to_thread(condition)):
            assert time.monotonic() < deadline, "it did not come true"
            await asyncio.sleep(0.01)
        return came

    return until


@pytest.fixture
def no_descriptor_is_lost() -> Iterator[None]:
    """Fail the test after which more descriptors are open than before."""
    process = psutil.Process(os.getpid())
    before = process.num_fds()
    yield
    assert process.num_fds() <= before + 6  # selectors and the pipes of the loop
