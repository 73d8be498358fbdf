"""Who followed README types what it and the guides show, and it works."""

import os
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.absent import program, require_packages
from tests.functional.docs.reader import Reader, commands_of

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]  # installs the project with uv

ROOT = Path(__file__).parents[3]
README = ROOT / "README.md"
PAGES = [
    page
    for page in [README, *sorted((ROOT / "docs").glob("*.md")), *ROOT.glob("examples/*/README.md")]
    if "\n```sh\n" in page.read_text("utf-8")
]
NOT_TYPED = {
    r"pip install |npm install |npx |openapi-python-client |python chat\.py ": (
        "tests of the guides have what these install"
    ),
    r"just ": "it would run this test",
    r"uv build|.*\bsudo ": "changes the clone, or the machine",
    r"docker |MOCHI_OLLAMA_HOST=\S+ docker |aider |claude |llm |oauth2-proxy ": (
        "needs a program that may not be there"
    ),
    r"mochi-server keys (?:rotate|revoke) |mochi-server mcp log(?:in|out) |(?:mv|rm -r) my-chats": (
        "is for a key, a login, or data that somebody has"
    ),
    r"for name in |curl -H \"Authorization: ": "is for servers of others, or in containers",
    r"mochi-server chat": "needs a terminal",
    r"mochi-server sessions copy |export MOCHI_(?:JOURNAL|SESSIONS)_": "needs Redis and a store",
}
"""Starts of commands, and why nobody types them here; test_guides.py checks their arguments."""
FIRST = next(commands_of(README.read_text("utf-8"))).removeprefix("pip install uv && ")


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of somebody who has uv and nothing else of ours."""
    uv = program("uv")
    place = tmp_path_factory.mktemp("tools")
    pinned = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["uv"]
    (place / "constraints.txt").write_text("\n".join(pinned["constraint-dependencies"]))
    cache = subprocess.run([uv, "cache", "dir"], capture_output=True, text=True, check=True).stdout
    kept = ("UV_", "PIP_", "SSL_", "LANG", "HTTP", "http", "no_proxy", "NO_PROXY", "CI")
    return {
        **{name: value for name, value in os.environ.items() if name.startswith(kept)},
        "PATH": os.pathsep.join([str(Path(uv).parent), "/usr/local/bin", "/usr/bin", "/bin"]),
        "UV_CACHE_DIR": cache.strip(),
        "UV_CONSTRAINT": str(place / "constraints.txt"),
        "UV_TOOL_DIR": str(place / "tools"),
        "UV_TOOL_BIN_DIR": str(place / "bin"),
        "MOCHI_PORT": "0",
        "MOCHI_BACKGROUND_WORKER": "false",
        "MOCHI_TEST_WORDS_PER_SECOND": "0",
    }


@pytest.fixture(scope="module")
def installed(person: dict[str, str]) -> dict[str, str]:
    """Return the environment of somebody who installed the project as README says."""
    install, _, _ = FIRST.partition(" && ")
    done = subprocess.run(
        ["bash", "-c", install], cwd=ROOT, env=person, capture_output=True, text=True, check=False
    )
    require_packages(done)
    return {**person, "PATH": f"{person['UV_TOOL_BIN_DIR']}{os.pathsep}{person['PATH']}"}


@pytest.fixture(scope="module")
def with_ollama(installed: dict[str, str]) -> Iterator[dict[str, str]]:
    """Return their environment, with scripted models in place of Ollama."""
    with subprocess.Popen(
        ["mochi-server", "scripted_llm", "--words-per-second", "0"],
        env=installed,
        stdout=subprocess.PIPE,
        text=True,
    ) as models:
        assert models.stdout
        url = re.search(r"http://\S+", models.stdout.readline())
        assert url
        yield {**installed, "MOCHI_OLLAMA_HOST": url[0]}
        models.terminate()


@pytest.fixture
def home() -> Iterator[Path]:
    """Return a folder whose path is short, as a home's is: sockets can be there."""
    with tempfile.TemporaryDirectory(prefix="mochi-home-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.parametrize("flags", ["", " --test-mode"])
@pytest.mark.usefixtures("installed")
def test_the_first_command_serves_without_the_command_on_the_path(
    flags: str, person: dict[str, str], home: Path
) -> None:
    reader = Reader(home, person)
    try:
        reader.types(FIRST + flags, where=ROOT)
        reader.types("curl localhost:8000/")
    finally:
        reader.leaves()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_work_as_they_are_shown(
    page: Path, with_ollama: dict[str, str], home: Path
) -> None:
    text = page.read_text("utf-8")
    reader = Reader(home, with_ollama)
    reader.saves_files_of(text)
    try:
        for command in typed(text):
            reader.types(command, where=ROOT if command.startswith("uv tool install") else None)
    finally:
        reader.leaves()


def test_what_is_not_typed_is_shown() -> None:
    shown = [command for page in PAGES for command in commands_of(page.read_text("utf-8"))]

    assert [start for start in NOT_TYPED if not any(re.match(start, each) for each in shown)] == []


def typed(text: str) -> Iterator[str]:
    """Yield the commands of a page that can be tried."""
    for command in commands_of(text):
        if not any(re.match(start, command) for start in NOT_TYPED):
            yield command
