"""Test mode's data directory: fresh, shared, gone afterwards."""

import os
from pathlib import Path

import pytest

from mochi_project.configuration.loading import load_settings
from mochi_project.configuration.test_mode import remove_fresh_data_dir, with_fresh_data_dir


@pytest.fixture(autouse=True)
def no_data_dir_given(monkeypatch: pytest.MonkeyPatch) -> None:
    # Set first, so that what the code under test sets is undone too.
    monkeypatch.setenv("MOCHI_DATA_DIR", "")


def test_test_mode_gets_a_fresh_directory_that_children_share_and_nobody_keeps() -> None:
    settings = with_fresh_data_dir(load_settings(test_mode=True))

    assert settings.data_dir.is_dir()
    assert os.environ["MOCHI_DATA_DIR"] == str(settings.data_dir)
    assert with_fresh_data_dir(load_settings(test_mode=True)).data_dir == settings.data_dir

    remove_fresh_data_dir()

    assert not settings.data_dir.exists()


def test_a_directory_that_was_given_is_used_and_kept(tmp_path: Path) -> None:
    settings = with_fresh_data_dir(load_settings(test_mode=True, data_dir=tmp_path))

    remove_fresh_data_dir()

    assert settings.data_dir == tmp_path
    assert tmp_path.is_dir()


def test_without_test_mode_nothing_is_made() -> None:
    settings = load_settings()

    assert with_fresh_data_dir(settings) is settings
