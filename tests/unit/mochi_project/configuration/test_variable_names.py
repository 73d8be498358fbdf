"""Names of variables: which get a warning, and what becomes of former ones."""

from pathlib import Path

import pytest

from mochi_project.configuration.variable_names import (
    file_warnings,
    rename_variables,
    variable_warnings,
)


def test_a_typo_in_a_variable_gets_a_hint() -> None:
    unknown = variable_warnings(["MOCHI_OLLAMA_HOTS", "HOME"])
    sentence = unknown.pop("MOCHI_OLLAMA_HOTS")
    assert not unknown

    assert sentence.startswith("MOCHI_OLLAMA_HOTS is not a setting")
    assert sentence.endswith("did you mean MOCHI_OLLAMA_HOST?")


def test_known_and_nested_variables_get_no_hint() -> None:
    known = ["MOCHI_PORT", "MOCHI_PROVIDERS__MINE__BASE_URL", "MOCHI_E2E_OLLAMA_HOST"]

    assert variable_warnings(known) == {}


def test_a_renamed_variable_gets_a_warning_with_its_name() -> None:
    assert variable_warnings(["MOCHI_WORKER", "MOCHI_WORKERS"]) == {
        "MOCHI_WORKER": "MOCHI_WORKER is now named MOCHI_BACKGROUND_WORKER; "
        "the former name is still read"
    }


def test_child_processes_get_renamed_variables_under_their_current_names() -> None:
    only_former = {"MOCHI_WORKER": "false", "PATH": "/bin"}
    both = {"MOCHI_WORKER": "false", "MOCHI_BACKGROUND_WORKER": "true"}
    empty = {"MOCHI_WORKER": "false", "MOCHI_BACKGROUND_WORKER": ""}

    for environment in (only_former, both, empty):
        rename_variables(environment)

    assert only_former == {"MOCHI_BACKGROUND_WORKER": "false", "PATH": "/bin"}
    assert both == {"MOCHI_BACKGROUND_WORKER": "true"}
    assert empty == {"MOCHI_BACKGROUND_WORKER": "false"}


@pytest.mark.parametrize(
    ("count", "start", "end"),
    [
        (0, "", ""),
        (1, "line 1 of ", " is not NAME=VALUE and is ignored"),
        (2, "lines 1, 2 of ", " are not NAME=VALUE and are ignored"),
        (9, "lines 1, 2, 3, 4, 5 and 4 more of ", " are not NAME=VALUE and are ignored"),
    ],
)
def test_broken_lines_of_a_file_get_one_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, count: int, start: str, end: str
) -> None:
    (tmp_path / ".env").write_text("not a pair\n" * count)
    monkeypatch.chdir(tmp_path)

    expected = [f"{start}{tmp_path / '.env'}{end}"] if count else []
    assert file_warnings() == expected


def test_a_misspelt_part_of_an_object_is_pointed_out():
    told = variable_warnings(
        [
            "MOCHI_PROVIDERS",
            "MOCHI_PROVIDERS__MINE",
            "MOCHI_PROVIDERS__MINE__BASE_URL",
            "MOCHI_PROVIDERS__MINE__API_KY_ENV",
            "MOCHI_PORT__X",
        ]
    )
    assert told.keys() == {"MOCHI_PROVIDERS__MINE__API_KY_ENV", "MOCHI_PORT__X"}
    (sentence, other) = (told[name] for name in sorted(told, reverse=True))
    assert sentence.endswith("did you mean MOCHI_PROVIDERS__MINE__API_KEY_ENV?")
    assert other.endswith("did you mean MOCHI_PORT?")
