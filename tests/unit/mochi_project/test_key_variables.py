"""Which variables hold keys, as far as the server knows."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mochi_project.configuration.loading import MochiSettings, load_settings
from mochi_project.key_variables import KeyVariables
from sessions_app.errors import StorageUnavailable
from sessions_app.store.file_records import FileRecords
from tests.contract.memory_storage import MemoryRecords

PROFILE = json.dumps({"provider": "openai", "model": "gpt", "api_key_env": "PROFILE_KEY"}).encode()


def variables_of(settings: MochiSettings) -> KeyVariables:
    return KeyVariables(settings, FileRecords(settings.resolved_data_dir / "profiles"))


class DistantRecords(MemoryRecords):
    """Records that are out of reach for a while."""

    is_away = False

    def read_all(self, matches: Callable[[str], bool]) -> dict[str, bytes]:
        if self.is_away:
            raise StorageUnavailable("away")
        return super().read_all(matches)


def test_keys_of_vendors_providers_and_profiles_are_known(data_dir: Path) -> None:
    providers = {
        "mine": {"base_url": "http://localhost:1", "api_key_env": "Mine_Key"},
        "openai": {"api_key_env": "ANOTHER_OPENAI_KEY"},
        "open": {"base_url": "http://localhost:2"},
    }
    variables = variables_of(load_settings(data_dir=data_dir, providers=providers))
    before = variables.names()

    (data_dir / "profiles").mkdir()
    (data_dir / "profiles" / "p.json").write_bytes(PROFILE)
    (data_dir / "profiles" / "broken.json").write_text("{")

    wanted = {"OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "GROQ_API_KEY"}
    wanted |= {"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"}
    assert before >= wanted | {"MINE_KEY", "ANOTHER_OPENAI_KEY", "SECRET_KEY"}
    assert variables.names() - before == {"PROFILE_KEY"}
    assert "" not in before


def test_keys_of_the_store_of_sessions_are_withheld_where_there_is_one(data_dir: Path) -> None:
    shared = {"journal_url": "redis://localhost", "sessions_url": "s3://bucket/prefix"}
    settings = load_settings(data_dir=data_dir, secret_key="s" * 32, **shared)
    names = KeyVariables(settings, MemoryRecords()).names()

    assert {"AWS_SECRET_ACCESS_KEY", "AZURE_STORAGE_ACCOUNT_KEY"} <= names
    assert "AWS_SECRET_ACCESS_KEY" not in variables_of(load_settings(data_dir=data_dir)).names()


def test_keys_that_were_known_are_withheld_while_the_profiles_are_out_of_reach(
    data_dir: Path,
) -> None:
    profiles = DistantRecords({"p.json": PROFILE})
    variables = KeyVariables(load_settings(data_dir=data_dir), profiles)
    profiles.is_away = True
    with pytest.raises(StorageUnavailable):
        variables.names()
    profiles.is_away = False
    known = variables.names()
    profiles.is_away = True
    assert "PROFILE_KEY" in known
    assert variables.names() == known
