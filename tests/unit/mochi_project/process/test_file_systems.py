"""The data's file systems are tried once; what they lack stops the start or is told."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from mochi_project.configuration.loading import MochiSettings
from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.process import file_systems
from mochi_project.process.startup import prepare_data_dir
from sessions_app.store.file_system import FileSystemReport, probe_file_system


@pytest.fixture
def settings(tmp_path: Path) -> MochiSettings:
    return MochiSettings(data_dir=tmp_path / "data")


def reporting(monkeypatch: pytest.MonkeyPatch, report: FileSystemReport) -> list[Path]:
    tried: list[Path] = []
    monkeypatch.setattr(file_systems, "probe_file_system", lambda at: tried.append(at) or report)
    return tried


def test_a_file_system_without_links_is_refused_in_a_sentence_and_nothing_is_left(
    settings: MochiSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr("os.link", refuse)
    monkeypatch.setattr("os.symlink", refuse)

    with pytest.raises(ConfigurationError) as caught:
        prepare_data_dir(settings)

    assert "hard links (operation not permitted), symbolic links" in str(caught.value)
    assert "mochi-server docs file-systems" in str(caught.value)
    assert list(settings.resolved_state_dir.iterdir()) == []


def test_coarse_times_are_told_and_the_server_starts(
    settings: MochiSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    reporting(monkeypatch, FileSystemReport(coarse_ns=2_000_000_000))

    [note] = prepare_data_dir(settings)

    assert "keeps times in steps of 2 s" in note


def test_a_device_is_tried_once(settings: MochiSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.resolved_sessions_dir.mkdir(parents=True)
    tried = reporting(monkeypatch, FileSystemReport())

    assert prepare_data_dir(settings) == []
    assert prepare_data_dir(settings) == []

    assert tried == [settings.resolved_state_dir]


def test_sessions_on_another_device_are_tried_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = Path("/dev/shm")
    if not elsewhere.is_dir() or elsewhere.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system")
    settings = MochiSettings(data_dir=tmp_path / "data", sessions_dir=elsewhere)
    tried = reporting(monkeypatch, FileSystemReport())

    prepare_data_dir(settings)

    assert tried == [settings.resolved_state_dir, elsewhere]


def test_sessions_that_can_not_be_written_now_do_not_stop_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = Path("/dev/shm")
    if not elsewhere.is_dir() or elsewhere.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system")

    def probe(directory: Path) -> FileSystemReport:
        if directory == elsewhere:
            raise OSError(errno.EROFS, "Read-only file system")
        return probe_file_system(directory)

    monkeypatch.setattr(file_systems, "probe_file_system", probe)

    assert prepare_data_dir(MochiSettings(data_dir=tmp_path / "data", sessions_dir=elsewhere)) == []
