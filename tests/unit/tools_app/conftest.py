"""Folders of tools."""

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools_app.functions import importing

WriteTools = Callable[..., Path]


@pytest.fixture
def write_tools(tmp_path: Path) -> WriteTools:
    """Return a function that writes modules, ``name=source``, into a folder."""

    def write(folder: str = "tools", /, **modules: str) -> Path:
        directory = tmp_path / folder
        directory.mkdir(parents=True, exist_ok=True)
        for name, source in modules.items():
            (directory / f"{name}.py").write_text(textwrap.dedent(source), encoding="utf-8")
        return directory

    return write


@pytest.fixture
def nothing_stays_imported() -> Iterator[None]:
    """Take what was imported in this process out of it again."""
    yield
    for imports in list(importing._installed.values()):
        imports.uninstall()
