"""Which variables hold keys, as far as the server knows."""

import json
from pathlib import Path

from mochi_project.configuration.loading import load_settings
from mochi_project.wiring.key_variables import KeyVariables


def test_keys_of_vendors_providers_and_profiles_are_known(data_dir: Path) -> None:
    providers = {
        "mine": {"base_url": "http://localhost:1", "api_key_env": "Mine_Key"},
        "openai": {"api_key_env": "ANOTHER_OPENAI_KEY"},
        "open": {"base_url": "http://localhost:2"},
    }
    variables = KeyVariables(load_settings(data_dir=data_dir, providers=providers))
    before = variables.names()

    profile = {"provider": "openai", "model": "gpt", "api_key_env": "PROFILE_KEY"}
    (data_dir / "profiles").mkdir()
    (data_dir / "profiles" / "p.json").write_text(json.dumps(profile))
    (data_dir / "profiles" / "broken.json").write_text("{")

    wanted = {"OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "GROQ_API_KEY"}
    assert before >= wanted | {"MINE_KEY", "ANOTHER_OPENAI_KEY", "SECRET_KEY"}
    assert variables.names() - before == {"PROFILE_KEY"}
    assert "" not in before


def test_keys_of_the_store_of_sessions_are_withheld_where_there_is_one(data_dir: Path) -> None:
    shared = {"journal_url": "redis://localhost", "sessions_url": "s3://bucket/prefix"}
    names = KeyVariables(load_settings(data_dir=data_dir, secret_key="s" * 32, **shared)).names()

    assert {"AWS_SECRET_ACCESS_KEY", "AZURE_STORAGE_ACCOUNT_KEY"} <= names
    assert "AWS_SECRET_ACCESS_KEY" not in KeyVariables(load_settings(data_dir=data_dir)).names()
