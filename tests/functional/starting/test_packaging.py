"""The wheel: what is in it, and that its command runs where nothing else is."""

import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mochi_project import chat_page
from mochi_project.cli import commands
from mochi_server import __version__
from tests.functional.absent import program, require_packages, skip_without
from tools_app.functions.installing import install_command

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]  # mypy reads all of the wheel

ROOT = Path(__file__).parents[3]
GUIDES = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PACKAGES = sorted(init.parent.name for init in ROOT.glob("*/__init__.py"))


def uv(*words: str, cwd: Path = ROOT) -> None:
    """Run uv with our constraints, or skip where packages of others can't be had."""
    command = [program("uv"), *words]
    ended = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    require_packages(ended)


def build(project: Path, target: Path, *flags: str) -> None:
    uv("build", "--quiet", *flags, "--out-dir", str(target), cwd=project)


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
    for name in ("Repository", "Documentation", "Changelog", "Issues"):
        assert f"Project-URL: {name}, https://" in metadata
    assert re.findall(r"""\]\((?!https?:|#)|(?:src|srcset)="(?!https?:)""", metadata) == []
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


TINY = """
[project]
name = "mochi-server"
version = "1"
optional-dependencies = { extra = [] }
scripts = { mochi-server = "mochi_server:main" }
[build-system]
requires = ["uv_build"]
build-backend = "uv_build"
"""


@pytest.mark.parametrize(
    "words",
    [
        ["mochi-server @ git+file://{tiny}"],
        ["mochi-server[extra] @ git+file://{tiny}@of/branch#subdirectory=."],
        ["--editable", "mochi-server[extra] @ {tiny}"],
        ["mochi-server @ {tiny}"],
    ],
)
def test_the_command_that_adds_packages_keeps_where_a_tool_came_from(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny, tools = tmp_path / "tiny project", tmp_path / "tools"
    (tiny / "src/mochi_server").mkdir(parents=True)
    (tiny / "src/mochi_server/__init__.py").write_text("def main(): pass\n")
    (tiny / "pyproject.toml").write_text(TINY)
    person = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for command in (
        ("init",),
        ("add", "."),
        (*person, "commit", "-m", "a"),
        ("branch", "of/branch"),
    ):
        subprocess.run(["git", *command], cwd=tiny, check=True, capture_output=True)
    monkeypatch.setenv("UV_TOOL_DIR", str(tools))
    monkeypatch.setenv("UV_TOOL_BIN_DIR", str(tmp_path / "bin"))
    uv("tool", "install", *(word.format(tiny=tiny) for word in words))
    monkeypatch.setattr(sys, "prefix", str(tools / "mochi-server"))
    receipt = tools / "mochi-server/uv-receipt.toml"
    listed = tomllib.loads(receipt.read_text("utf-8"))["tool"]["requirements"]

    uv(*shlex.split(install_command(["mochi-server"]))[1:], "--force")

    again = tomllib.loads(receipt.read_text("utf-8"))["tool"]["requirements"]
    assert again[0] == listed[0]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the programs of a clean environment with the wheel, and FastAPI to mount it in."""
    environment = tmp_path_factory.mktemp("installed") / "venv"
    programs = environment / "bin"
    uv("venv", "--quiet", "--python", sys.executable, str(environment))
    uv(
        "pip",
        "install",
        "--quiet",
        "--python",
        str(programs / "python"),
        str(wheel),
        "fastapi",
        "pytest",
    )
    return programs


@pytest.fixture
def says(
    installed: Path, run: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> Callable[..., str]:
    """Return what runs the installed command in an empty folder, and returns what it says."""

    def say(*words: str, code: int = 0) -> str:
        ended = run([str(installed / "mochi-server"), *words], PYTHONPATH="")
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


def test_every_guide_can_be_read_where_only_the_wheel_is(
    wheel: Path, says: Callable[..., str]
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("mochi_project/docs/")}

    assert packed == {f"mochi_project/docs/{page.name}" for page in GUIDES}
    assert says("docs", "events") == (ROOT / "docs/events.md").read_text("utf-8")
    assert {line.split()[0] for line in says("docs").splitlines()} == {g.stem for g in GUIDES}


def test_the_wheel_serves_the_page_with_all_its_files_from_an_empty_folder(
    installed: Path, start: Callable[..., Any], tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    command = (str(installed / "mochi-server"), "--test-mode", "--port", "0")

    server = start(*command, cwd=empty, PYTHONPATH="")

    while not server.get("/api/v1/models").json()["models"]:
        pass  # a machine that is busy compiling may not have them listed in time
    assert server.get("/").content == chat_page.read("index.html")
    for name in chat_page.CONTENT_TYPES:
        assert server.get(f"/{name}").content == chat_page.read(name)
    server.stop()
    assert list(empty.iterdir()) == []


EXAMPLES = {
    f"{page.stem.replace('-', '_')}_{number}": code
    for page in (ROOT / "README.md", *GUIDES)
    for number, code in enumerate(BLOCK.findall(page.read_text("utf-8")))
    if "mochi_server" in code
}
EXAMPLES["types_of_others"] = """
from asgiref.typing import ASGI3Application
from mochi_server import MochiApplication, create_app
from starlette.types import ASGIApp

ours: MochiApplication = create_app()
starlettes: ASGIApp = ours
asgirefs: ASGI3Application = ours
"""


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the programs that the guides show."""
    folder = tmp_path_factory.mktemp("examples")
    for name, code in EXAMPLES.items():
        (folder / f"{name}.py").write_text(code)
    return folder


def checked(*command: str, folder: Path) -> None:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_guides_programs_pass_mypy_beside_the_wheel(installed: Path, examples: Path) -> None:
    checked(
        *(sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir=.cache"),
        "--allow-untyped-globals",  # of tools: __destructive__ = []
        *("--python-executable", str(installed / "python"), "."),
        folder=examples,
    )


def test_the_guides_programs_pass_pyright_beside_the_wheel(installed: Path, examples: Path) -> None:
    pyright, node = ROOT / "node_modules/pyright/index.js", shutil.which("node")
    if not pyright.exists() or node is None:
        skip_without("pyright", "(npm install --no-save pyright)")
    (examples / "pyrightconfig.json").write_text(
        '{"typeCheckingMode": "strict", "reportUnusedImport": false}'
    )

    checked(node, str(pyright), "--pythonpath", str(installed / "python"), folder=examples)
