"""Fixtures of every test: no blocking call on an event loop, no network, a home of its own."""

import functools
import gc
import itertools
import re
import signal
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from blockbuster import BlockBuster
from hypothesis import settings

from mochi_project.principal import OPERATOR, acting_for
from tests.functional.processes import ForkedToolServer

pytest_plugins = ["tests.object_server", "tests.redis_server", "tests.warm.plugin"]

# Started in the background, a shell has us ignore CTRL-C, and nohup the end of the terminal;
# servers that we start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# An example that takes long says something about the machine, which may be busy. What is found by
# chance is for `just soak`: one commit has one outcome.
settings.register_profile("default", deadline=None, max_examples=15, derandomize=True)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True)
settings.register_profile("soak", deadline=None, max_examples=1000)
settings.load_profile("default")

NUMBERS = itertools.count()
LONGEST_FIRST = ("architecture", "functional", "benchmarks", "contract", "unit")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without collecting garbage: what is made stays, and half the time goes there.

    What there is then is never looked through again, in no test's collection either.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long, so that no process of the suite is left alone with it."""
    items.sort(key=lambda item: _rank(item.path))


@functools.cache
def _rank(path: Path) -> int:
    folder = path.relative_to(Path(__file__).parent).parts[0]
    return LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else len(LONGEST_FIRST)


@pytest.fixture(scope="session")
def detector() -> BlockBuster:
    """Return what detects blocking calls, made once: making it takes longer than many a test."""
    detector = BlockBuster()
    # The journal is written inline on purpose: a page-cache write is cheaper than a thread hop.
    detector.functions["os.write"].can_block_in("chat/storage/files/journal_file.py", {"append"})
    # So is the ledger of usage, whose line is there before a client is told what a call used.
    detector.functions["os.write"].can_block_in("usage_app/ledger.py", {"append"})
    # A traceback that is logged reads its lines of source.
    for function in ("os.stat", "io.TextIOWrapper.read", "io.BufferedReader.read"):
        detector.functions[function].can_block_in("linecache.py", {"checkcache", "updatecache"})
    return detector


@pytest.fixture(autouse=True)
def nothing_blocks_the_loop(
    request: pytest.FixtureRequest, detector: BlockBuster, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Fail a test in which a blocking call runs on an event loop."""
    if request.node.get_closest_marker("allow_blocking"):
        yield
        return
    detector.activate()
    yield
    # pytest-django has it made before this fixture, so that it would be undone after it: what
    # was patched in `os` would become the detector's own function, for ever.
    monkeypatch.undo()
    detector.deactivate()


@pytest.fixture
def acts_as_operator() -> Iterator[None]:
    """Act for the owner ``default``, as commands do; requests act for whom the guard names."""
    with acting_for(OPERATOR):
        yield


@pytest.fixture
def forked_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork what runs tools, instead of starting an interpreter for it."""
    monkeypatch.setattr(subprocess, "Popen", ForkedToolServer)


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty directory of the test's own.

    pytest's fixture looks for a free number among the directories of all tests before.
    """
    name = re.sub(r"\W", "_", request.node.name)[:27]  # sockets have short paths
    return tmp_path_factory.mktemp(f"{name}{next(NUMBERS)}", numbered=False)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Return an empty data directory."""
    directory = tmp_path / "data"
    directory.mkdir()
    return directory
