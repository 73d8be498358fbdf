"""Linter, formatter and wording, so that the tests run them too; `.ci/run` checks the types."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "command",
    [["ruff", "check", "."], ["ruff", "format", "--check", "."]],
    ids=["ruff-check", "ruff-format"],
)
def test_the_code_passes(command: list[str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_docstrings_describe_and_do_not_ask() -> None:
    question = re.compile(r'"""(?:What|Who|Whose|Which|Whether|How|Where) .*')
    asking = {
        f"{path.relative_to(ROOT)}: {found}"
        for init in ROOT.glob("*/__init__.py")
        for path in init.parent.rglob("*.py")
        for found in question.findall(path.read_text("utf-8"))
    }

    assert asking == set()


def test_tests_are_named_by_sentences() -> None:
    number = re.compile(r"def (test_\d{3}_\w+)")
    named = {
        f"{path.relative_to(ROOT)}: {found}"
        for path in (ROOT / "tests").rglob("*.py")
        for found in number.findall(path.read_text("utf-8"))
    }

    assert named == set()
