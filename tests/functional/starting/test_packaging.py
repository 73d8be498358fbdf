"""The wheel: what is in it, and that its command runs where nothing else is."""

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mochi_project.cli import commands
from mochi_server import __version__

pytestmark = pytest.mark.interop

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys
import mochi_project.cli as cli
print(cli.__file__, file=sys.stderr)
sys.exit(cli.main())
"""
PACKAGES = sorted(init.parent.name for init in ROOT.glob("*/__init__.py"))


def build(project: Path, target: Path, *flags: str) -> None:
    """Build, or skip where the build's own packages can't be had."""
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not installed")
    built = subprocess.run(
        [uv, "build", "--quiet", *flags, "--out-dir", str(target)],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode and ("dns error" in built.stderr or "Connect" in built.stderr):
        pytest.skip("the build backend is not in the cache, and there is no network")
    assert built.returncode == 0, built.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel, built as the README says: from the unpacked source distribution."""
    target = tmp_path_factory.mktemp("dist")
    build(ROOT, target)
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
    assert "mochi_project/chat-page/index.html" in names
    assert "mochi_project/chat-page/vendor/fonts/KaTeX_Main-Regular.woff2" in names
    assert "mochi_project/chat-page/vendor/katex.LICENSE" in names
    for command in ("runserver", "doctor"):
        assert f"mochi_project/management/commands/{command}.py" in names


def test_the_data_of_who_runs_the_server_in_a_clone_are_not_packed(tmp_path: Path) -> None:
    clone, target = tmp_path / "clone", tmp_path / "dist"
    data = [
        *("chat_sessions/0123456789.json", ".mochi/secret_key", ".env", "mcp.json"),
        *("tools/mine.py", "agents/mine/SKILL.md", "system_prompts/mine.md", "workspace/mine"),
    ]
    for name in data:
        path = clone / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    for name in ("pyproject.toml", ".gitignore", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone)

    build(clone, target, "--sdist")

    with tarfile.open(next(target.glob("*.tar.gz"))) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert "pyproject.toml" in names
    assert not set(data) & set(names)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for PYTHONPATH, which comes first: only the dependencies are from here."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture
def says(
    installed: Path, run: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> Callable[..., str]:
    """Return what runs the installed command in an empty folder, and returns what it says."""

    def say(*words: str, code: int = 0) -> str:
        ended = run([sys.executable, "-P", "-c", PROGRAM, *words], PYTHONPATH=str(installed))
        assert str(installed) in ended.stderr
        assert ended.returncode == code, ended.stderr
        assert list(tmp_path.iterdir()) == []
        return ended.stdout + ended.stderr

    return say


def test_help_of_the_wheel_lists_and_explains_every_command(says: Callable[..., str]) -> None:
    shown = says("--help")
    for name, line in commands().items():
        assert re.search(rf"^  {name} +{re.escape(line)}$", shown, re.MULTILINE)
    assert "usage: mochi-server sessions" in says("sessions", "--help")
    assert "--limit" in says("sessions", "list", "--help")
    assert "actions:" in says("sessions", code=2)
    assert says("--version").splitlines()[0] == __version__


def test_what_is_misspelt_is_pointed_out_by_the_wheel(says: Callable[..., str]) -> None:
    assert "did you mean sessions?" in says("sesions", code=2)
    assert "did you mean list?" in says("sessions", "lst", code=2)
    assert "did you mean --limit?" in says("sessions", "list", "--limmit", "3", code=2)
    assert "did you mean --port?" in says("--prot", "9000", code=2)


def test_the_wheel_runs_from_an_empty_folder(
    installed: Path, start: Callable[..., Any], tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()

    server = start(
        *(sys.executable, "-c", PROGRAM, "--test-mode", "--port", "0"),
        cwd=empty,
        PYTHONPATH=str(installed),
    )

    while not server.get("/api/v1/models").json()["models"]:
        pass  # a machine that is busy compiling may not have them listed in time
    assert str(installed) in server.stderr
    server.stop()
    assert list(empty.iterdir()) == []
