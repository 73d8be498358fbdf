"""Folders of agents, and a catalogue of them with real processes."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from blockbuster import BlockBuster

from agents_app.catalogue import AgentCatalogue
from sessions_app.service import SessionManager
from sessions_app.store.file_records import FileRecords
from tools_app.hosts.fork_server_client import ForkServerClient
from tools_app.limits import HostLimits
from tools_app.storage.generations import Generations

SKILL = "---\ndescription: Knows {name}.\n---\nYou know {name}.\n"
MODULE = '''
__destructive__ = []


def tell(text: str) -> str:
    """Tell the text.

    Args:
        text: What to tell.
    """
    return f"{name}: {{text}}"
'''


class Folders:
    """Writes agents; may block, as a person's editor does."""

    def __init__(self, agents_dir: Path) -> None:
        self.agents_dir = agents_dir

    def write_agent(
        self, name: str, *, where: Path | None = None, **files: str | bytes | None
    ) -> Path:
        """Write an agent that works, but for the files that are given; None: no such file.

        ``skill`` is its SKILL.md, ``init`` its __init__.py, ``module`` its module.
        """
        module = name.replace("-", "_").replace(".", "_")
        contents: dict[str, str | bytes | None] = {
            "skill": SKILL.format(name=name),
            "module": MODULE.format(name=name),
            "init": f'from .{module} import tell\n\n__all__ = ["tell"]\n',
            **files,
        }
        names = {"skill": "SKILL.md", "module": f"{module}.py", "init": "__init__.py"}
        folder = (where or self.agents_dir) / name
        folder.mkdir(parents=True, exist_ok=True)
        for file, content in contents.items():
            if content is not None:
                self.put(folder / names.get(file, f"{file}.py"), content)
        return folder

    def put(self, path: Path, content: str | bytes) -> None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def ran(self, folder: Path | None = None) -> bool:
        """Whether a module ran that leaves a file to show it."""
        return any((folder or self.agents_dir).rglob("ran"))

    def do(self, change: Callable[[], object]) -> None:
        change()


@pytest.fixture(scope="session")
def folders_may_block(detector: BlockBuster) -> None:
    for function in detector.functions.values():
        function.can_block_in("agents_app/conftest.py", {"write_agent", "put", "ran", "do"})


@pytest.fixture
def folders(agents_dir: Path, folders_may_block: None) -> Folders:
    return Folders(agents_dir)


@pytest.fixture
def agents_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "agents"
    directory.mkdir()
    return directory


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path / ".mochi"


@pytest.fixture
async def make_catalogue(
    agents_dir: Path, state_dir: Path, tmp_path: Path, forked_tools: None
) -> AsyncIterator[Callable[..., AgentCatalogue]]:
    """Return what makes catalogues of one directory, each as if in a process of its own."""
    fork_server = ForkServerClient(tmp_path)
    catalogues: list[AgentCatalogue] = []

    def make(**limits: float) -> AgentCatalogue:
        catalogues.append(
            AgentCatalogue(
                agents_dir,
                fork_server=fork_server,
                generations=Generations(FileRecords(state_dir), "agents.generation"),
                timeout_seconds=20,
                limits=HostLimits(**limits),
            )
        )
        return catalogues[-1]

    yield make
    for catalogue in catalogues:
        await catalogue.aclose()
    await fork_server.aclose()


@pytest.fixture
def catalogue(make_catalogue: Callable[..., AgentCatalogue]) -> AgentCatalogue:
    return make_catalogue()


@pytest.fixture
def sessions(sessions_dir: Path) -> SessionManager:
    return SessionManager(sessions_dir)


@pytest.fixture
def chats(tmp_path: Path) -> SessionManager:
    """Return the sessions of agents."""
    return SessionManager(tmp_path / "agent_chats")
