"""Signals to turns of other processes: files of ours, in a directory that may not be."""

from pathlib import Path

from chat.storage.files.signals import FileSignals
from chat.storage.files.watcher import PathWatcher
from tests.unit.chat.disk import FailingDisk

TURN = "0199f3a2b4c50000abcd"


def test_a_sweep_removes_old_signals_and_nothing_else(tmp_path: Path) -> None:
    """The directory can be a link to somebody's documents, in a folder that others filled."""
    documents = tmp_path / "documents"
    documents.mkdir()
    for name in ("thesis.odt", f"{TURN}.odt", "notes.cancel"):
        (documents / name).touch()
    (documents / f"{TURN}.confirm").symlink_to(documents / "thesis.odt")
    (tmp_path / "signals").symlink_to(documents)
    signals = FileSignals(tmp_path / "signals", PathWatcher())
    signals.send(TURN, "cancel")
    before = set(documents.iterdir())

    signals.sweep(-1)

    assert before - set(documents.iterdir()) == {documents / f"{TURN}.cancel"}


def test_signals_are_taken_and_withdrawn_from_a_disk_that_became_read_only(tmp_path: Path) -> None:
    signals = FileSignals(tmp_path / "signals", PathWatcher())
    signals.send(TURN, "cancel")
    with FailingDisk(tmp_path).installed() as disk:
        disk.turn_read_only()

        assert signals.take({TURN}) == [(TURN, "cancel")]
        signals.withdraw(TURN, "cancel")

    assert signals.take({TURN}) == [(TURN, "cancel")]
    assert signals.take({TURN}) == []
