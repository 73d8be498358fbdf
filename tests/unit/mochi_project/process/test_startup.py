"""What is made at a start, and what is asked for instead."""

import stat
from pathlib import Path

import pytest

from mochi_project.configuration.loading import MochiSettings
from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.process.startup import api_token, prepare_data_dir

KEY = "0123456789abcdef" * 4


def test_a_secret_key_is_made_for_this_user_alone(tmp_path: Path) -> None:
    prepare_data_dir(MochiSettings(data_dir=tmp_path))

    made = tmp_path / ".mochi" / "secret_key"
    assert len(made.read_text()) == 43
    assert stat.S_IMODE(made.stat().st_mode) == 0o600


def test_no_secret_key_is_made_where_one_is_given(tmp_path: Path) -> None:
    prepare_data_dir(MochiSettings.model_validate({"data_dir": tmp_path, "secret_key": KEY}))

    assert not (tmp_path / ".mochi" / "secret_key").exists()


def node(tmp_path: Path, **settings: object) -> MochiSettings:
    """Return the settings of one of several nodes."""
    given = {"data_dir": tmp_path, "journal_url": "redis://valkey", "secret_key": KEY}
    return MochiSettings.model_validate({**given, **settings})


def test_a_node_of_several_makes_no_token_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        api_token(node(tmp_path), on_network=True)

    assert str(refused.value).startswith("MOCHI_API_TOKEN must be set with MOCHI_JOURNAL_URL, ")
    assert not (tmp_path / ".mochi").exists()


def test_a_node_of_several_is_given_its_token_where_it_needs_one(tmp_path: Path) -> None:
    assert api_token(node(tmp_path), on_network=False) is None
    assert api_token(node(tmp_path, insecure_no_auth=True), on_network=True) is None
    assert api_token(node(tmp_path, api_token="given"), on_network=True) == "given"
