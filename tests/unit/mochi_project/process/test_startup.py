"""What is made at a start, and what is asked for instead."""

import stat
from pathlib import Path

from mochi_project.configuration.config import MochiSettings
from mochi_project.process.startup import prepare_data_dir

KEY = "0123456789abcdef" * 4


def test_a_secret_key_is_made_for_this_user_alone(tmp_path: Path) -> None:
    prepare_data_dir(MochiSettings(data_dir=tmp_path))

    made = tmp_path / ".mochi" / "secret_key"
    assert len(made.read_text()) == 43
    assert stat.S_IMODE(made.stat().st_mode) == 0o600


def test_no_secret_key_is_made_where_one_is_given(tmp_path: Path) -> None:
    prepare_data_dir(MochiSettings.model_validate({"data_dir": tmp_path, "secret_key": KEY}))

    assert not (tmp_path / ".mochi" / "secret_key").exists()
