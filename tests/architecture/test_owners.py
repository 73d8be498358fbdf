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
    "sessions_app/services.py": "makes services",
    "sessions_app/settings.py": "declares the settings",
    "transfer_app/backup.py": "copies whole data directories",
}
HOLDING_NOTHING_OF_AN_OWNER = {
    "agents_app.catalogue.AgentCatalogue": "the folders of agents, which all share",
    "chat.activity.feed.ActivityFeeds": "counts listeners",
    "chat.conversation_storage.StorageEngine": "opens storages at places that it is told",
    "chat.start.turn_limits.TurnPlaces": "counts turns by owner",
    "chat.notices.notifier.NoticeQueue": "notices, each with its owner",
    "chat.storage.files.change_log.ChangeWatcher": "watches directories that it is told",
    "chat.storage.signals.Signals": "words to turns, whose ids their owners alone find",
    "chat.storage.task_queue.TaskQueue": "tasks, each with its owner",
    "chat.turn.observer.TurnObserver": "the operator's log, metrics and traces",
    "chat.work_threads.WorkThreads": "threads, which get the context of each call",
    "cluster_app.connections.Cluster": "connections, whose keys begin with the owner",
    "mochi_project.background.housekeeping.Housekeeper": "acts for each owner in turn",
    "mochi_project.background.rounds.OwnerFolders": "the names of owners",
    "mochi_project.background.supervisor.WorkerSupervisor": "a process",
    "mochi_project.keys.ring.KeyRing": "keys, each with its owner",
    "mochi_project.keys.store.KeyStore": "keys, each with its owner",
    "mochi_project.memory.large_responses.LargeResponses": "counts answers",
    "mochi_project.reachability.Stores": "whether stores can be reached",
    "mochi_project.telemetry.Telemetry": "the operator's metrics and traces",
    "models_app.model_calls.ModelCallHeaders": "headers of the running call",
    "models_app.model_calls.ModelCallObserver": "calls, each with its owner",
    "models_app.prices.Prices": "prices",
    "models_app.services.SharedModels": "what providers say of their models",
    "search_app.places.SearchPlaces": "counts searches",
    "sessions_app.deadline.Deadline": "a time",
    "sessions_app.http.places.ListPlaces": "counts lists",
    "sessions_app.attachments.sweeping.SweepTimes": "times by owner",
    "sessions_app.ids_and_clock.SharedClock": "the time",
    "sessions_app.store.records.RecordStores": "opens records at places that it is told",
    "tools_app.execution_log.ExecutionLog": "calls, each with its owner",
    "tools_app.folder.FolderTools": "tools, and processes of one owner each",
    "tools_app.hosts.fork_server_client.KeyNames": "names of variables",
    "tools_app.mcp.login.LoginNotice": "what the operator's log is told",
    "tools_app.mcp.login.LoginPolicy": "logins to servers, which all share",
    "tools_app.mcp.logins.McpLogins": "logins to servers, which all share",
    "tools_app.mcp.remote.ToolCallHeaders": "headers of the running call",
    "tools_app.mcp.toolset.McpTools": "servers, which all share whom they are for",
    "tools_app.services.ToolServices": "the tools above",
    "tools_app.storage.call_log.CallLog": "calls, each with its owner",
    "usage_app.budgets.observer.Budgets": "sums by owner",
    "usage_app.observers.Observers": "the observers above",
    "usage_app.ledger.Ledger": "lines, each with its owner",
    "usage_app.prices.PriceList": "prices of models",
    "usage_app.reports.UsageReports": "sums by owner",
}
CACHES = {
    "agents_app/language_model.py": "descriptions of agents, of one owner's models",
    "agents_app/skill.py": "descriptions of agents, by the content of their files",
    "chat/storage/files/change_log.py": "the number of a process",
    "dialects_app/shared/attaching.py": "files of URLs, of one owner's requests",
    "mochi_project/errors/statuses.py": "statuses of codes",
    "mochi_project/http/clients.py": "proxies of the configuration",
    "mochi_project/http/openapi.py": "the document",
    "mochi_project/process/file_systems.py": "file systems of directories",
    "mochi_project/process/lifespan.py": "paths",
    "mochi_project/routing.py": "routes",
    "models_app/aliases.py": "names of models",
    "models_app/default_model.py": "the model of a configuration",
    "models_app/ollama/conversion.py": "types",
    "models_app/ollama/inventory.py": "what Ollama says of its models",
    "models_app/ollama/structured.py": "schemas, by their content",
    "models_app/profile_language_model.py": "profiles, of one owner's models",
    "models_app/tool_schemas.py": "schemas, by their content",
    "models_app/vendors/inventory.py": "what vendors say of their models",
    "models_app/vendors/language_model.py": "which models refuse what",
    "sessions_app/json_schema.py": "faults of values, by the digest of value and schema",
    "tools_app/functions/schema.py": "schemas of functions, in one owner's process",
    "dialects_app/responses/store.py": "tools of one session's turns, in one request",
    "sessions_app/store/claims.py": "which processes live, in one listing",
    "transfer_app/import_command.py": "the default model, in one command",
    "transfer_app/backup.py": "parts of directories, in one command",
    "transfer_app/uploaded.py": "the default model, in one request",
    "usage_app/price_library.py": "which prices are a model's",
    "usage_app/traces/observer.py": "addresses of providers",
}
"""The modules with caches that outlive a call, and what these hold of nobody or of one owner."""
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


def makes_a_cache(path: Path) -> bool:
    tree = ast.parse(path.read_text())
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    decorating = [
        each
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for each in node.decorator_list
    ]
    names = {
        getattr(each, "id", None) or getattr(each, "attr", None) for each in called + decorating
    }
    return not names.isdisjoint({"cache", "lru_cache", "ExpiringCache"})


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {
        name
        for node in ast.walk(tree)
        for name in (getattr(node, "attr", None), getattr(node, "id", None))
        if name is not None
    }


def test_it_is_known_what_each_shared_service_holds(
    settings: Any,
) -> None:
    shared, _ = factories_of(settings)
    names = {k if isinstance(k, str) else f"{k.__module__}.{k.__qualname__}" for k in shared}

    assert names <= HOLDING_NOTHING_OF_AN_OWNER.keys()


def test_it_is_known_what_each_cache_holds() -> None:
    found = {str(path.relative_to(ROOT)) for path in sources() if makes_a_cache(path)}

    assert found - {"models_app/expiring_cache.py"} == CACHES.keys()
