"""The wheel: what is in it, and that its command runs where nothing else is."""

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mochi_server import __version__

ROOT = Path(__file__).parents[3]
PACKAGES = sorted(init.parent.name for init in ROOT.glob("*/__init__.py"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the built wheel, or skip where its build can't be had."""
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not installed")
    target = tmp_path_factory.mktemp("dist")
    built = subprocess.run(
        [uv, "build", "--quiet", "--wheel", "--out-dir", str(target)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode and ("dns error" in built.stderr or "Connect" in built.stderr):
        pytest.skip("the build backend is not in the cache, and there is no network")
    assert built.returncode == 0, built.stderr
    return next(target.glob("*.whl"))


def test_the_wheel_holds_the_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(f"mochi_server-{__version__}.dist-info/METADATA").decode()
        scripts = archive.read(f"mochi_server-{__version__}.dist-info/entry_points.txt").decode()

    top = {name.split("/")[0] for name in names}
    assert top == {*PACKAGES, f"mochi_server-{__version__}.dist-info"}
    assert not [name for name in names if "__pycache__" in name or name.endswith((".lock", ".env"))]
    assert all(f"{package}/py.typed" in names for package in PACKAGES)
    assert "License-Expression: MIT" in metadata
    assert "mochi-server = mochi_project.cli:main" in scripts
    for command in ("runserver", "doctor"):
        assert f"mochi_project/management/commands/{command}.py" in names


def test_the_wheel_runs_from_an_empty_folder(
    wheel: Path, start: Callable[..., Any], tmp_path: Path
) -> None:
    installed = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    empty = tmp_path / "empty"
    empty.mkdir()
    # The dependencies are this environment's, the server is the wheel's: PYTHONPATH comes first.
    code = "import sys, mochi_project.cli as cli; print(cli.__file__, file=sys.stderr); cli.main()"

    server = start(
        *(sys.executable, "-c", code, "--test-mode", "--port", "0"),
        cwd=empty,
        PYTHONPATH=str(installed),
    )

    assert server.get("/api/v1/models").json()["models"]
    assert str(installed) in server.stderr
    server.stop()
    assert list(empty.iterdir()) == []
