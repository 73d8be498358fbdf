"""What is written from the configuration is what the configuration says."""

from pathlib import Path

import pytest

from mochi_project.configuration.loading import MochiSettings, load_settings
from scripts.reference import env_example, markdown_table, variables

ROOT = Path(__file__).parents[3]


def test_env_example_is_up_to_date() -> None:
    assert (ROOT / ".env.example").read_text() == env_example(), "run `just docs`"


def test_every_setting_is_described() -> None:
    described = {variable for variable, _, description in variables() if description}

    assert described == {f"MOCHI_{name.upper()}" for name in MochiSettings.model_fields}
    assert all(f"| `{variable}` |" in markdown_table() for variable in described)


def test_what_env_example_shows_are_the_defaults(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOCHI_DATA_DIR", ".")
    defaults = load_settings()

    uncommented = env_example().replace("\n# MOCHI_", "\nMOCHI_")
    (tmp_path / ".env").write_text(uncommented)

    assert load_settings() == defaults
