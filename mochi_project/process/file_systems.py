"""Probes the file systems of the data directories at the start."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from mochi_project.configuration.setting_errors import ConfigurationError
from sessions_app.settings import SessionsSettings
from sessions_app.store.file_system import FileSystemReport, probe_file_system


def check_file_systems(settings: SessionsSettings) -> list[str]:
    """Return warnings, one sentence each. Blocks for milliseconds.

    Each file system is probed once. Missing directories are skipped: they will be created on a
    probed file system, or are not mounted, which other checks notice.

    Raises:
        ConfigurationError: A file system lacks a required ability; the message says which.
        OSError: The state directory can't be written to.
    """
    notes = []
    for directory in _one_of_each_device(settings):
        report = _report_on(directory, required=directory == settings.resolved_state_dir)
        if report.missing:
            raise ConfigurationError(
                f"{directory} is on a file system that can't hold mochi-server's data safely; it "
                f"lacks {', '.join(report.missing)}: name a folder on another one with --data-dir "
                "(`mochi-server docs file-systems` says what is needed)"
            )
        if report.coarse_ns:
            notes.append(
                f"The file system of {directory} keeps times in steps of "
                f"{report.coarse_ns / 1e9:g} s: a change of a tool or an agent that follows "
                "another one as quickly may be seen only after a reload"
            )
    return notes


def _report_on(directory: Path, *, required: bool) -> FileSystemReport:
    try:
        return _probed(directory.stat().st_dev, directory)
    except OSError:
        if required:
            raise
        return FileSystemReport()  # not writable: the first write reports it


@cache
def _probed(_device: int, directory: Path) -> FileSystemReport:
    """Probe a directory; cached by device, since file systems rarely change."""
    return probe_file_system(directory)


def _one_of_each_device(settings: SessionsSettings) -> Iterator[Path]:
    seen = set()
    for directory in (
        settings.resolved_state_dir,
        settings.resolved_private_dir,
        settings.resolved_sessions_dir,
        settings.resolved_agent_chats_dir,
    ):
        if directory.is_dir() and (device := directory.stat().st_dev) not in seen:
            seen.add(device)
            yield directory
