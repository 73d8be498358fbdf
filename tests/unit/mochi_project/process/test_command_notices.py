"""Warnings before a command, about what somebody else may have written."""

from pathlib import Path

import pytest

from mochi_project.process.command_notices import warn_before


def test_neither_a_folder_nor_a_variable_steers_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "\x1b[2J\x9bcloned"
    folder.mkdir()
    (folder / ".env").write_text("MOCHI_PORT=9000\n")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("MOCHI_P\x1b[2J\x9bOTR", "1")
    monkeypatch.chdir(folder)

    warn_before("sessions")

    trust, variable = capsys.readouterr().err.splitlines()
    assert "cloned' is not trusted" in trust
    assert "MOCHI_P[2JOTR is not a setting" in variable
    assert (trust + variable).isprintable()
