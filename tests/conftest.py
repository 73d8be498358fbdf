"""Fixtures of every test: no blocking call on an event loop, no network, a home of its own."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from blockbuster import BlockBuster, blockbuster_ctx
from hypothesis import settings

# Started in the background, a shell has us ignore CTRL-C; servers that we start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# An example that takes long says something about the machine, which may be busy.
settings.register_profile("mochi", deadline=None)
settings.load_profile("mochi")


@pytest.fixture(autouse=True)
def nothing_blocks_the_loop(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[BlockBuster | None]:
    """Fail a test in which a blocking call runs on an event loop."""
    if request.node.get_closest_marker("allow_blocking"):
        yield None
        return
    with blockbuster_ctx() as detector:
        # The journal is written inline on purpose: a page-cache write is cheaper than a thread hop.
        detector.functions["os.write"].can_block_in(
            "chat/storage/files/journal_file.py", {"append"}
        )
        # A traceback that is logged reads its lines of source.
        for function in ("os.stat", "io.TextIOWrapper.read", "io.BufferedReader.read"):
            detector.functions[function].can_block_in("linecache.py", {"checkcache", "updatecache"})
        yield detector
        # pytest-django has it made before this fixture, so that it would be undone after it: what
        # was patched in `os` would become the detector's own function, for ever.
        monkeypatch.undo()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Return an empty data directory."""
    directory = tmp_path / "data"
    directory.mkdir()
    return directory
