"""Generators make clients of the OpenAPI document that compile as strictly as can be asked for.

``install`` beside this file installs them; where it did not run, these tests are skipped.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.functional.absent import skip_without

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
CLIENTS = ROOT / ".clients"
GENERATORS = CLIENTS / "generators"
NODE = CLIENTS / "node/bin/node"

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]  # compilers, beside other tests


def installed(path: Path) -> Path:
    if not path.exists():
        skip_without(str(path), f"({HERE.relative_to(ROOT)}/install)")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the document, as the command writes it, and Node's modules."""
    made = tmp_path_factory.mktemp("generated")
    modules = installed(GENERATORS / "node_modules")
    (made / "node_modules").symlink_to(modules)
    command = [sys.executable, "-m", "mochi_server", "export_openapi", "--output"]
    run(made, *command, str(made / "openapi.json"))
    return made


def run(folder: Path, *command: str | Path, **variables: str) -> str:
    paths = [NODE.parent, GENERATORS / "python/bin", os.environ["PATH"]]
    kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    environment = kept | {"PATH": os.pathsep.join(map(str, paths)), "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-6000:]
    return ended.stdout + ended.stderr


def test_clients_for_typescript_compile_and_know_every_event(folder: Path) -> None:
    programs = folder / "node_modules/.bin"
    installed(NODE)
    run(folder, NODE, programs / "openapi-typescript", "openapi.json", "-o", "types.ts")
    run(folder, NODE, programs / "openapi-ts", "-i", "openapi.json", "-o", "client", "--silent")
    for name in ("tsconfig.json", "typed_client.ts"):
        shutil.copy(HERE / name, folder)
    run(folder, NODE, programs / "tsc", "-p", ".")
    schemas = json.loads((folder / "openapi.json").read_text())["components"]["schemas"]
    for union in ("TurnEvent", "ActivityEvent"):
        for event in schemas[union]["discriminator"]["mapping"].values():
            name = event.rpartition("/")[2]
            assert f"        {name}: {{" in (folder / "types.ts").read_text()
            assert f"export type {name} = {{" in (folder / "client/types.gen.ts").read_text()


USE = """
from mochi_server_client import Client
from mochi_server_client.api.chat import chat
from mochi_server_client.models import (
    ChatIn, ErrorResponse, MessageOut, OpenChatIn, OpenChatOut, QueuedOut, SuspendedOut,
    TurnStartedEvent
)
from mochi_server_client.types import Unset

question = ChatIn(message="Hello!")


def ask(client: Client) -> OpenChatOut | QueuedOut | SuspendedOut | ErrorResponse | None:
    return chat.sync(client=client, body=OpenChatIn(message="Hello!"))


def turn_of(event: dict[str, object]) -> str:
    return TurnStartedEvent.from_dict(event).data.turn_id


def was_cancelled(message: MessageOut) -> bool | Unset:
    return message.cancelled
"""


def test_a_client_for_python_has_every_operation_and_passes_mypy(folder: Path) -> None:
    python = installed(GENERATORS / "python/bin/python")
    (folder / "config.yaml").write_text("post_hooks: []\n")
    said = run(
        folder,
        *(python.with_name("openapi-python-client"), "generate", "--path", "openapi.json"),
        *("--output-path", "python", "--config", "config.yaml", "--meta", "none", "--overwrite"),
    )
    assert "Unable to" not in said
    assert "Endpoint will not be generated" not in said
    shutil.move(folder / "python", folder / "mochi_server_client")
    (folder / "use.py").write_text(USE)
    run(
        folder,
        *(sys.executable, "-m", "mypy", "--strict", "--python-executable", python),
        *("--cache-dir", folder / "mypy", "--config-file", os.devnull, "use.py"),
    )
    models = (folder / "mochi_server_client/models/__init__.py").read_text()
    schemas = json.loads((folder / "openapi.json").read_text())["components"]["schemas"]
    for event in schemas["TurnEvent"]["discriminator"]["mapping"].values():
        assert f'"{event.rpartition("/")[2]}",' in models


def test_no_message_of_a_stream_is_empty(server: Any, folder: Path) -> None:
    session_id = server.chat().new_session()
    shutil.copy(HERE / "fetch_event_source.mjs", folder)
    script = folder / "fetch_event_source.mjs"
    live, again = run(folder, installed(NODE), script, server.url, session_id).splitlines()
    assert live.split()[0] == "turn_started"
    assert live.split()[-2:] == ["message_complete", "done"]
    assert again == live
