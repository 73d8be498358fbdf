"""``mochi-server docs``: the guides, where there is no terminal to page them on."""

import pytest
from django.core.management import CommandError, call_command

from tests.functional.conftest import ROOT


def test_a_guide_is_printed_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("docs", "trust")

    assert capsys.readouterr().out == (ROOT / "docs/trust.md").read_text("utf-8")


def test_without_a_name_the_guides_are_listed_with_their_titles(
    capsys: pytest.CaptureFixture[str],
) -> None:
    call_command("docs")

    lines = capsys.readouterr().out.splitlines()
    assert "trust          Trusted folders" in lines
    assert len(lines) == len(list((ROOT / "docs").glob("*.md")))


def test_a_guide_that_is_not_there_is_refused_with_the_names_of_those_that_are() -> None:
    with pytest.raises(CommandError, match=r"invalid choice: 'nothing'.*'trust'"):
        call_command("docs", "nothing")
