"""Fixtures of every test: no blocking call on an event loop, no network, a home of its own."""

import atexit
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Before Django reads its settings: nothing of a developer's own configuration reaches a test.
for _name in [name for name in os.environ if name.startswith("MOCHI_") and "_E2E_" not in name]:
    del os.environ[_name]
# Nor do keys, with which a test would ask the real vendors; the live tests have names of their own.
for _vendor in ("ANTHROPIC", "GEMINI", "GOOGLE", "OPENAI", "OPENROUTER"):
    os.environ.pop(f"{_vendor}_API_KEY", None)
os.environ["MOCHI_DATA_DIR"] = tempfile.mkdtemp(prefix="mochi-tests-")
atexit.register(shutil.rmtree, os.environ["MOCHI_DATA_DIR"], ignore_errors=True)
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="mochi-tests-state-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)
os.environ["MOCHI_WORKER"] = "false"  # tests/functional/worker starts it

# Started in the background, a shell has us ignore CTRL-C; servers that we start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

from blockbuster import BlockBuster, blockbuster_ctx  # noqa: E402
from hypothesis import settings  # noqa: E402

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
        detector.functions["os.write"].can_block_in("chat/journals/journal_file.py", {"append"})
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
