"""A folder to start in, and a state home of its own."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mochi_project.configuration.loading import start_here
from mochi_project.trust.contents import parts_of
from mochi_project.trust.decision import INHERITED_VARIABLE, remember


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which the server is started, with nothing named or decided."""
    monkeypatch.delenv("MOCHI_DATA_DIR", raising=False)
    monkeypatch.setenv(INHERITED_VARIABLE, "")  # set, so that what a test sets is undone
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def decided() -> Callable[..., None]:
    """Return what remembers a decision, as `mochi-server trust` does."""

    def remember_it(folder: Path, *, trusted: bool = True) -> None:
        remember(folder, parts_of(start_here().layout(folder)), trusted=trusted)

    return remember_it
