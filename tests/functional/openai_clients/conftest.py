"""Where the clients are that nobody here wrote: ``install`` beside this file puts them there."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.functional.absent import skip_without

CLIENTS = Path(__file__).parents[3] / ".clients"


@pytest.fixture
def client_program(tmp_path: Path) -> Callable[[str], str]:
    """Return how to find a program among the clients; CI must have them.

    Programs for Node.js find its modules when they run in ``tmp_path``.
    """

    def find(name: str) -> str:
        folder, _, program = name.rpartition("/")
        found = CLIENTS / (folder or ("node" if name == "node" else "python")) / "bin" / program
        if not found.exists():
            skip_without(str(found), "(tests/functional/openai_clients/install)")
        modules = tmp_path / "node_modules"
        if name == "node" and not modules.is_symlink():
            modules.symlink_to(CLIENTS / "node_modules")
        return str(found)

    return find


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a client's program: no proxy, and settings of its own."""
    kept = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    return kept | {"LLM_USER_PATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
