"""Services that all owners share know nothing of an owner."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents_app.catalogue import AgentCatalogue
from mochi_project.app import Factories, ServicePool, Services, mochi_apps
from mochi_project.background.supervisor import WorkerSupervisor
from mochi_project.configuration.constants import CORE, WINGS
from mochi_project.configuration.loading import load_settings

ROOT = Path(__file__).parents[2]
OF_OWNERS = {"resolved_sessions_dir", "resolved_agent_chats_dir", "locations_of", "attachments_dir"}
"""What says where the data of an owner are."""
BUILDERS = {
    "agents_app/services.py": "makes services",
    "chat/chores.py": "removes temporary files",
    "chat/conversation_storage.py": "makes storages",
    "chat/services.py": "makes services",
    "mochi_project/http/health.py": "checks whether directories can be written to",
    "mochi_project/management/commands/doctor.py": "reads the agents' folder, without the chats",
    "mochi_project/process/file_systems.py": "checks the file systems of directories",
    "search_app/services.py": "makes services",
    "sessions_app/services.py": "makes services",
    "sessions_app/settings.py": "declares the settings",
    "transfer_app/backup.py": "copies whole data directories",
}
CLUSTER = {"journal_url": "redis://nowhere.invalid:1", "secret_key": "k" * 40}


def factories_of(settings: Any) -> tuple[Factories, Factories]:
    """Return the factories of shared services, and those of one owner's."""
    shared: dict[Any, Any] = {}
    owned: dict[Any, Any] = {}
    for app in mochi_apps():
        of_app = app.factories(settings)
        shared |= of_app[0]
        owned |= of_app[1]
    return shared, owned


@pytest.fixture(params=[{}, CLUSTER], ids=["one machine", "several machines"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return load_settings(data_dir=tmp_path, **request.param)


def test_a_service_is_shared_or_of_an_owner(settings: Any) -> None:
    shared, owned = factories_of(settings)

    assert shared.keys() & owned.keys() == set()
    assert len(shared) > 10 < len(owned)


def test_a_shared_service_asks_for_nothing_of_an_owner(settings: Any) -> None:
    shared, _ = factories_of(settings)
    nowhere = {"sessions_dir": object(), "agent_chats_dir": object()}  # no paths
    without_owner = settings.model_copy(update=nowhere)
    of_settings: dict[Any, Any] = dict.fromkeys(type(settings).__mro__, lambda _: without_owner)
    of_settings[ServicePool] = lambda _: ServicePool(without_owner)
    agents = {AgentCatalogue: shared[AgentCatalogue]}  # leaves the chats out of its folder
    of_agents = dict.fromkeys(type(settings).__mro__, lambda _: settings)

    made = [Services({**of_settings, **shared}).get(kind) for kind in shared.keys() - agents.keys()]
    made.append(Services({**shared, **of_agents}).get(AgentCatalogue))

    for each in made:
        if isinstance(each, WorkerSupervisor):
            each.stop()
    assert len(made) == len(shared)


def test_paths_of_an_owners_data_are_built_in_few_modules() -> None:
    assert {path for path in sources() if names_in(path) & OF_OWNERS} == {
        ROOT / name for name in BUILDERS
    }


def sources() -> Iterator[Path]:
    for app in ("mochi_project", *CORE, *WINGS):
        yield from (ROOT / app).rglob("*.py")


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {
        name
        for node in ast.walk(tree)
        for name in (getattr(node, "attr", None), getattr(node, "id", None))
        if name is not None
    }
