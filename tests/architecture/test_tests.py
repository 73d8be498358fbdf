"""The unit tests mirror the tree: who knows a module knows where its tests are."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "tests/unit"
SOURCES = {
    path.relative_to(ROOT).as_posix()
    for folder in (*(init.parent for init in ROOT.glob("*/__init__.py")), ROOT / "scripts")
    for path in folder.rglob("*.py")
}
FOLDERS = {Path(source).parent.as_posix() for source in SOURCES}
# Tests of what the modules of a folder do together, by their folder.
ABOUT_A_FOLDER: dict[str, set[str]] = {
    "agents_app": {"examples", "workspace_attacks"},
    "chat": {
        "answers_in_a_form",
        "begun_calls",
        "brought_messages",
        "changed_tools",
        "continued_turns",
        "client_tools",
        "half_characters",
        "handed_over_turns",
        "keyed_turns",
        "long_results",
        "lost_keyed_turns",
        "lost_swaps",
        "lost_turns",
        "memory_of_turns",
        "missing_sessions",
        "power_cuts",
        "refused_requests",
        "regenerating",
        "sessions_in_objects",
        "shared_turns",
        "slow_journal",
        "steered_turns",
        "stopping_turns",
        "tool_turns",
        "unsaved_turns",
        "versions",
    },
    "chat/activity": {"open_questions"},
    "chat/approvals": {
        "confirmation_races",
        "lost_questions",
        "records_on_disk",
        "remembered_approvals",
    },
    "chat/inbox": {"keys"},
    "chat/remote": {"sealing_client_calls", "sealing_together", "sealing_untold_answers"},
    "chat/start": {"decisions", "deferred_tools"},
    "chat/storage/files": {"broken_journals"},
    "chat/summaries": {"giving_way", "meanwhile"},
    "dialects_app/ai_sdk": {"resumed_turns"},
    "dialects_app/responses": {"codex", "deleting", "resumed_turns", "streams"},
    "mochi_project": {"owner_contexts"},
    "mochi_project/fast_django": {"streams"},
    "mochi_project/guard": {"forms", "keys"},
    "transfer_app/management/commands": {"check", "copy", "object_sessions"},
    "mochi_project/trust": {"start"},
    "cluster_app": {"dead_nodes"},
    "models_app": {"profiles_in_use"},
    "models_app/ollama": {"faults", "sink", "stopping", "stream", "window"},
    "scripted_app": {"ollama_routes", "openai_routes", "vendor_routes"},
    "sessions_app": {"new_fields"},
    "sessions_app/format": {"broken_files"},
    "sessions_app/store": {
        "dead_claims",
        "newer_servers",
        "turns_of_long_sessions",
    },
    "cluster_app/redis": {"idempotency_keys", "journals_in_trouble", "sentinels", "whole_index"},
    "tools_app/functions": {"compiled_code", "destructive", "owners"},
    "tools_app/hosts": {"calls", "discovery", "endings", "warm_calls"},
    "tools_app/library": {"library"},
    "usage_app/metrics": {"dashboard"},
    "tools_app/mcp": {"http_replies", "liars", "odd_servers", "reference_servers"},
}


def module_of(path: Path) -> Path:
    """Return the module that a test file is named after."""
    return path.relative_to(UNIT).with_name(path.name.removeprefix("test_"))


def test_each_folder_of_tests_is_a_folder_or_a_module_of_the_tree() -> None:
    folders = {path.parent.relative_to(UNIT).as_posix() for path in UNIT.rglob("test_*.py")}

    assert [
        folder
        for folder in sorted(folders)
        if folder not in FOLDERS and f"{folder}.py" not in SOURCES
    ] == []


def test_each_file_of_tests_is_named_after_its_module_or_known_to_be_about_its_folder() -> None:
    others: dict[str, set[str]] = {}
    for path in UNIT.rglob("test_*.py"):
        module = module_of(path)
        folder = module.parent.as_posix()
        if module.as_posix() not in SOURCES and folder in FOLDERS:
            others.setdefault(folder, set()).add(module.stem)

    assert others == ABOUT_A_FOLDER
