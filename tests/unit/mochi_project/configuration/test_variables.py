"""Variables: which of several says what, and how objects are put together."""

import os
from pathlib import Path

import pytest

from mochi_project.configuration.variables import (
    MAX_VALUE_BYTES,
    broken_lines,
    merged,
    parse_file,
    read_file,
    variables_of,
)


@pytest.fixture
def dotenv(tmp_path: Path) -> Path:
    return tmp_path / ".env"


def read(dotenv: Path) -> dict[str, object]:
    below, above = (
        variables_of(source, "UNIT_", objects={"things"}, former={"old": "new"})
        for source in (read_file(str(dotenv)), os.environ)
    )
    return merged(below, above)


def test_names_are_read_in_either_case(monkeypatch: pytest.MonkeyPatch, dotenv: Path) -> None:
    monkeypatch.setenv("unit_one", "1")
    monkeypatch.setenv("UNIT_TWO", "2")
    monkeypatch.setenv("OTHER_THREE", "3")

    assert read(dotenv) == {"one": "1", "two": "2"}


def test_an_empty_variable_hides_nothing(monkeypatch: pytest.MonkeyPatch, dotenv: Path) -> None:
    dotenv.write_text("UNIT_ONE=1\nUNIT_TWO=\nUNIT_THREE\n")
    monkeypatch.setenv("UNIT_ONE", "")

    assert read(dotenv) == {"one": "1"}


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"A=1\n# a comment\n\nexport B=2\nC\n", []),
        (b"A=1\n\n\n not a pair\nB=2\n", [4]),
        (b"not a pair\r\nA=1\r\n\r\n= 5\r\n", [1, 4]),
        (b'A="two\nlines"\nnot a pair', [3]),
    ],
)
def test_broken_lines_are_numbered_as_editors_do(content: bytes, lines: list[int]) -> None:
    assert broken_lines(content) == lines


def test_a_broken_line_hides_no_other_and_is_not_logged(
    dotenv: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dotenv.write_text("UNIT_ONE=1\nnot a pair\nUNIT_TWO=2\n")

    assert read(dotenv) == {"one": "1", "two": "2"}
    assert caplog.messages == []


def test_parts_are_added_to_their_object_wherever_it_is_set(
    monkeypatch: pytest.MonkeyPatch, dotenv: Path
) -> None:
    dotenv.write_text('UNIT_THINGS={"a": {"size": "1", "name": "x"}}\nUNIT_THINGS__B__SIZE=2\n')
    monkeypatch.setenv("UNIT_THINGS__A__SIZE", "3")
    monkeypatch.setenv("UNIT_THINGS__C", '{"size": "4"}')

    assert read(dotenv) == {
        "things": {
            "a": {"size": "3", "name": "x"},
            "b": {"size": "2"},
            "c": {"size": "4"},
        }
    }


def test_a_part_is_the_text_that_it_is(monkeypatch: pytest.MonkeyPatch, dotenv: Path) -> None:
    monkeypatch.setenv("UNIT_THINGS__A__SIZE", "{1")
    monkeypatch.setenv("UNIT_ONE", "{1}")

    assert read(dotenv) == {"things": {"a": {"size": "{1"}}, "one": "{1}"}


def test_a_part_of_what_has_no_parts_is_ignored(
    monkeypatch: pytest.MonkeyPatch, dotenv: Path
) -> None:
    monkeypatch.setenv("UNIT_ONE__A", "1")

    assert read(dotenv) == {}


@pytest.mark.parametrize("variable", ["UNIT_THINGS", "UNIT_THINGS__A"])
def test_a_text_in_the_place_of_an_object_is_kept_for_its_refusal(
    monkeypatch: pytest.MonkeyPatch, dotenv: Path, variable: str
) -> None:
    dotenv.write_text(f"{variable}=nonsense\n")
    monkeypatch.setenv("UNIT_THINGS__A__SIZE", "1")

    assert "nonsense" in str(read(dotenv))


def test_a_former_name_is_read_as_the_current_one_which_wins_beside_it(
    monkeypatch: pytest.MonkeyPatch, dotenv: Path
) -> None:
    dotenv.write_text("UNIT_OLD=1\n")
    assert read(dotenv) == {"new": "1"}

    dotenv.write_text("UNIT_OLD=1\nUNIT_NEW=2\n")
    assert read(dotenv) == {"new": "2"}

    monkeypatch.setenv("UNIT_OLD", "3")  # the environment wins over the file
    assert read(dotenv) == {"new": "3"}


def test_of_two_values_the_upper_one_wins() -> None:
    below = {"a": 1, "b": {"c": 2, "d": 3}}

    assert merged(below, {"a": 4, "b": {"c": 5}, "e": 6}) == {"a": 4, "b": {"c": 5, "d": 3}, "e": 6}
    assert below == {"a": 1, "b": {"c": 2, "d": 3}}


def test_variables_are_filled_in_from_the_lines_above_and_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("UNIT_OUTER", "outer")
    monkeypatch.setenv("UNIT_BOTH", "outer")

    values = parse_file(
        b"UNIT_BOTH=file\nA=${UNIT_OUTER}/${UNIT_BOTH}/${UNIT_NONE:-default}/${UNIT_NONE}\n"
        b"B='${A}'\nC\nD=${C:-x}${LATER}\nLATER=1\nB=${B}!\n"
    )

    known = {name: value for name, value in values.items() if name != "UNIT_BOTH"}
    assert known == {
        "A": "outer/file/default/",
        "B": "outer/file/default/!",
        "C": None,
        "D": "",
        "LATER": "1",
    }


@pytest.mark.parametrize(
    "content",
    [
        "A0=xxxxxxxx\n" + "".join(f"A{i}=${{A{i - 1}}}${{A{i - 1}}}\n" for i in range(1, 60)),
        f"A={'x' * (MAX_VALUE_BYTES // 2)}\nB=${{A}}\nC={'${B}' * 10_000}\n",
        f"A={'x' * MAX_VALUE_BYTES}y\n",
    ],
    ids=["values that double each other", "one value many times", "a long value"],
)
def test_a_file_whose_values_fill_the_memory_is_refused(content: str) -> None:
    with pytest.raises(OSError, match="its values are larger"):
        parse_file(content.encode())
