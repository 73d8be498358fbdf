"""Who may import whom, and what must not be imported before the server listens."""

import ast
import os
import re
import subprocess
import sys
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
ENGINE = re.compile(r"/(redis|objects)/|mochi_project/background/redis_")
"""Where what is peculiar to Redis or to an object store may be known."""

NOT_FOR_HEALTH = (
    *LATE,
    "dialects_app.api",
    "django_q.models",
    "dotenv",
    "psutil",
    "sqlite3",
)
MODULES_AT_FIRST_HEALTH = 1225
"""There are 1221. Each of them is read, and compiled where bytecode may not be kept."""


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, cache_dir=None)


def test_the_import_contracts_hold() -> None:
    command = Path(sys.executable).with_name("lint-imports")

    ended = subprocess.run(
        [command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_only_the_adapters_of_an_engine_import_its_library() -> None:
    importers = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if _imported(path) & {"hiredis", "obstore", "redis"}
    }

    outside = {path for path in importers if not ENGINE.search(path)}

    assert importers
    assert outside == set()


def _imported(path: Path) -> set[str]:
    """Return the packages that a file imports, wherever it does."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.append(node.module or "")
    return {name.partition(".")[0] for name in names}


def test_only_the_api_assembly_imports_routes(graph: grimp.ImportGraph) -> None:
    routes = {module for module in graph.modules if module.endswith(".api")}
    assemblies = {"mochi_project.api", "mochi_project.openai_api"}
    assert {"mochi_project.api", "chat.api", "dialects_app.api"} <= routes

    importers = {
        (importer, module)
        for module in routes - {"mochi_project.api"}
        for importer in graph.find_modules_that_directly_import(module)
    }

    assert {importer for importer, _ in importers} == assemblies


def test_only_routes_commands_and_the_shell_ask_the_composition_root(
    graph: grimp.ImportGraph,
) -> None:
    importers = graph.find_modules_that_directly_import("mochi_project.wiring.services")

    strangers = {
        module
        for module in importers
        if not module.startswith("mochi_project.") and not module.endswith((".api", ".tasks"))
    }
    assert not strangers


def test_below_the_composition_root_nothing_reads_django_settings() -> None:
    readers = [
        str(path.relative_to(ROOT))
        for package in PACKAGES
        if package not in {"mochi_project", "mochi_server"}
        for path in (ROOT / package).rglob("*.py")
        if "django.conf" in path.read_text(encoding="utf-8")
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
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if path != ROOT / "sessions_app" / "decoding.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and works_a_type_out(node)
    ]

    assert unsafe == []


def works_a_type_out(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    if name in {"msgspec.json.decode", "msgspec.msgpack.decode"}:
        return len(call.args) > 1 or any(keyword.arg == "type" for keyword in call.keywords)
    return name.startswith("msgspec.") and name.endswith((".convert", ".Decoder"))


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
