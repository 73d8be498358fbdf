"""Who may import whom, and what must not be imported before the server listens."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(init.parent.name for init in ROOT.glob("*/__init__.py"))
LATE = (
    "aiohttp",
    "anthropic",
    "genai_prices",
    "google.genai",
    "hiredis",
    "httpx",
    "httpx2",
    "mcp",
    "ollama",
    "obstore",
    "ollama_instructor",
    "openai",
    "prompt_toolkit",
    "pydantic_ai",
    "pydantic_settings",
    "python_multipart",
    "redis",
    "rich",
    "structlog",
    "yaml",
)
ENGINE = re.compile(r"cluster_app/")
"""Where what is peculiar to Redis or to an object store may be known."""

NOT_FOR_HEALTH = (
    *LATE,
    "dialects_app.api",
    "django_q.models",
    "dotenv",
    "psutil",
    "sqlite3",
)
MODULES_AT_FIRST_HEALTH = 1350
"""There are 1331. Each of them is read, and compiled where bytecode may not be kept."""


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, cache_dir=None)


def test_the_import_contracts_hold() -> None:
    command = Path(sys.executable).with_name("lint-imports")

    ended = subprocess.run(
        [command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_wheel_and_image_hold_every_package() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]
    wheel = build["targets"]["wheel"]["only-include"]
    image = (ROOT / ".dockerignore").read_text("utf-8").split()

    assert set(PACKAGES) <= set(wheel)
    assert {f"!{path}" for path in wheel} <= set(image)


def test_only_the_adapters_of_an_engine_import_its_library() -> None:
    importers = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if _imported(path, {"hiredis", "obstore", "redis"})
    }

    outside = {path for path in importers if not ENGINE.search(path)}

    assert importers
    assert outside == set()


def _imported(path: Path, packages: set[str]) -> set[str]:
    """Return which of these packages a file imports, wherever it does."""
    text = path.read_text(encoding="utf-8")
    if not any(package in text for package in packages):
        return set()
    names: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.append(node.module or "")
    return {name.partition(".")[0] for name in names} & packages


def test_nobody_imports_routes_which_are_found_by_name(graph: grimp.ImportGraph) -> None:
    routes = {module for module in graph.modules if module.endswith(".api")}
    assert {"mochi_project.api", "chat.api", "dialects_app.api"} <= routes

    importers = {
        (importer, module)
        for module in routes - {"mochi_project.api"}
        for importer in graph.find_modules_that_directly_import(module)
    }

    assert importers == set()


def test_below_the_composition_root_nothing_reads_django_settings() -> None:
    readers = [
        str(path.relative_to(ROOT))
        for package in PACKAGES
        if package not in {"mochi_project", "mochi_server"}
        for path in (ROOT / package).rglob("*.py")
        if "management" not in path.parts and "django.conf" in path.read_text(encoding="utf-8")
    ]

    assert readers == []


def test_nothing_heavy_is_imported_with_the_routes() -> None:
    code = f"""
import sys
import mochi_project.asgi
from django.urls import resolve
resolve("/api/v1/health")
print([name for name in {LATE!r} if name in sys.modules])
"""

    assert run(code) == "[]"


def test_the_command_imports_no_routes_before_the_application_configures_django() -> None:
    code = """
import sys
import mochi_project.cli, mochi_project.process.server, mochi_project.process.web_workers
import mochi_project.uvicorn_protocol.protocol
print([name for name in ("ninja", "mochi_project.routing") if name in sys.modules])
"""

    assert run(code) == "[]"


def test_the_first_health_imports_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    code = f"""
import asyncio, sys
import mochi_project.cli, mochi_project.process.server, mochi_project.process.startup
import mochi_project.process.web_workers
from mochi_project.asgi import application

SCOPE = {{
    "type": "http", "http_version": "1.1", "method": "GET", "path": "/api/v1/health",
    "query_string": b"", "headers": [(b"host", b"127.0.0.1")], "server": ("127.0.0.1", 1),
}}

messages = [{{"type": "http.request", "body": b"", "more_body": False}}]

async def receive():
    return messages.pop() if messages else await asyncio.Event().wait()

async def send(message):
    print(message.get("status", ""), end=" ")

asyncio.run(application(SCOPE, receive, send))
print([name for name in {NOT_FOR_HEALTH!r} if name in sys.modules], len(sys.modules))
"""

    status, imported, modules = run(code, MOCHI_DATA_DIR=str(tmp_path)).split()

    assert (status, imported) == ("200", "[]")
    assert int(modules) <= MODULES_AT_FIRST_HEALTH


def test_types_are_decoded_by_one_module_alone() -> None:
    """Two threads that have msgspec decode a type for the first time crash (decision 0105)."""
    unsafe = [
        f"{path.relative_to(ROOT)}:{line}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if path != ROOT / "sessions_app" / "decoding.py"
        for line in lines_that_work_types_out(path.read_text(encoding="utf-8"))
    ]

    assert unsafe == []


@pytest.mark.parametrize(
    "code",
    [
        "msgspec.convert(value, int)",
        "msgspec.json.Decoder(int)",
        "msgspec.json.decode(data, type=int)",
        "msgspec.json.decode(data, **how)",
        "msgspec.msgpack.decode(data, type=int)",
        "read = partial(msgspec.json.decode, type=int)",
        "read = msgspec.json.decode",
        "import msgspec as m",
        "import msgspec.json as j",
        "from msgspec import convert",
        "from msgspec import json",
        "from msgspec.json import Decoder",
        "from msgspec.json import decode as read",
    ],
)
def test_each_way_to_decode_a_type_is_seen(code: str) -> None:
    assert lines_that_work_types_out(f"import msgspec\n{code}") == [2]


def test_what_decodes_no_type_may_be_used() -> None:
    code = (
        "from msgspec import UNSET, Meta\n"
        "msgspec.json.decode(data)\n"
        "msgspec.json.encode(data).decode()"
    )

    assert lines_that_work_types_out(code) == []


DECODING = ("convert", "Decoder", "decode")
MSGSPEC = ("msgspec", "msgspec.json", "msgspec.msgpack")


def lines_that_work_types_out(code: str) -> list[int]:
    """Return the lines in which msgspec may be had to work out a type, under whatever name."""
    if "msgspec" not in code:
        return []
    nodes = list(ast.walk(ast.parse(code)))
    untyped = {
        call.func
        for call in nodes
        if isinstance(call, ast.Call) and len(call.args) == 1 and not call.keywords
    }
    lines: list[int] = []
    for node in nodes:
        match node:
            case ast.Import(names=names):
                found = any(each.name.split(".")[0] == "msgspec" and each.asname for each in names)
            case ast.ImportFrom(module="msgspec", names=names):
                found = any(each.name in {*DECODING, "json", "msgpack", "*"} for each in names)
            case ast.ImportFrom(module=str(module), names=names) if module in MSGSPEC:
                found = any(each.name in {*DECODING, "*"} for each in names)
            case ast.Attribute(attr=name) if name in DECODING:
                is_untyped = name == "decode" and node in untyped
                found = ast.unparse(node.value) in MSGSPEC and not is_untyped
            case _:
                continue
        if found:
            lines.append(node.lineno)
    return lines


def run(code: str, **variables: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "mochi_project.settings", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()
