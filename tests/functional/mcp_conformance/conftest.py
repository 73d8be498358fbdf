"""MCP's conformance suite, a program of the protocol's authors, and a server to play with."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.functional.absent import skip_without
from tests.functional.openai_clients.conftest import CLIENTS, client_program, environment

__all__ = ["client_program", "environment"]

PROGRAM = CLIENTS / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"


class Suite:
    """The suite, which plays one scenario at a time."""

    def __init__(self, node: str, environment: dict[str, str], directory: Path) -> None:
        self._node = node
        self._environment = environment
        self._directory = directory

    def play(
        self, side: str, scenario: str, version: str | None, *arguments: str, **variables: str
    ) -> list[dict[str, Any]]:
        """Play a scenario against a client or a server, and return what was checked."""
        results = self._directory / "results"
        options = ["--scenario", scenario, "-o", str(results), "--timeout", "60000"]
        options += ["--spec-version", version] if version else []
        done = self._run(side, *options, *arguments, **variables)
        print(done.stdout[-20_000:], done.stderr[-5_000:])
        checks: list[dict[str, Any]] = []
        for file in results.glob("**/checks.json"):
            checks += json.loads(file.read_text())
        for file in results.glob("**/std*.txt"):
            print(file.read_text()[-5_000:])
        return checks

    def scenarios(self, side: str) -> set[str]:
        """Return the names of all scenarios for a client or a server."""
        listed = self._run("list", f"--{side}").stdout
        return {line.split()[1] for line in listed.splitlines() if line.startswith("  - ")}

    def _run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._node, str(PROGRAM), *arguments],
            env=self._environment | variables,
            cwd=self._directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )


@pytest.fixture
def suite(
    client_program: Callable[[str], str], environment: dict[str, str], tmp_path: Path
) -> Suite:
    """Return the suite; CI must have it."""
    node = client_program("node")
    if not PROGRAM.exists():
        skip_without(
            "@modelcontextprotocol/conformance", "(tests/functional/openai_clients/install)"
        )
    return Suite(node, environment, tmp_path)
