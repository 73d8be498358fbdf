"""SKILL.md: what it says, and what is told of one that is wrong."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents_app.skill import (
    MAX_DESCRIPTION_CHARS,
    MAX_FILE_BYTES,
    MAX_FRONT_MATTER_CHARS,
    Skill,
    parse_skill,
)

GOOD = "---\ndescription: Writes code.\nmodel: qwen3:14b\n---\n\nYou write code.\n"


def faults(text: str | bytes) -> str:
    return " ".join(parse_skill(text.encode() if isinstance(text, str) else text).faults)


def test_front_matter_and_system_prompt_are_told_apart() -> None:
    assert parse_skill(GOOD.encode()) == Skill(
        description="Writes code.", model="qwen3:14b", system_prompt="You write code."
    )


@pytest.mark.parametrize("model", ["", "model:\n", "model: null\n", "model: ''\n"])
def test_the_model_may_be_left_out(model: str) -> None:
    skill = parse_skill(f"---\ndescription: d\n{model}---\nprompt".encode())

    assert (skill.model, skill.faults) == (None, ())


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace("\n", "\r\n"),
        f"\ufeff{GOOD}",
        f"\n\n{GOOD}",
        GOOD.replace("---", "---  "),
        GOOD.replace("description", "name: coder\nlicense: MIT\ndescription"),
    ],
    ids=["windows", "byte-order-mark", "blank-lines", "spaces", "other-fields"],
)
def test_what_editors_and_other_programs_write_is_read(text: str) -> None:
    skill = parse_skill(text.encode())

    assert skill.faults == ()
    assert skill.description == "Writes code."
    assert skill.system_prompt == "You write code."


def test_a_description_over_several_lines_becomes_one() -> None:
    skill = parse_skill(b"---\ndescription: |\n  One.\n\n    - two: three\n---\nprompt")

    assert skill.description == "One. - two: three"


def test_a_line_of_dashes_in_the_prompt_belongs_to_it() -> None:
    assert parse_skill(f"{GOOD}\n---\nmore".encode()).system_prompt.endswith("---\nmore")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("You write code.", "front matter is missing"),
        ("", "front matter is missing"),
        ("---\ndescription: d\nYou write code.", "has no end"),
        ("---\n---\nprompt", "no description"),
        ("---\nmodel: m\n---\nprompt", "no description"),
        ("---\ndescription:\n---\nprompt", "no description"),
        ("---\ndescription: '  '\n---\nprompt", "description is empty"),
        ("---\ndescription: 5\n---\nprompt", "description must be a text"),
        ("---\ndescription: [a]\n---\nprompt", "description must be a text"),
        ('---\ndescription: "\\ud800"\n---\nprompt', "description must be a text"),
        (f"---\ndescription: {'x' * 2001}\n---\np", f"longer than {MAX_DESCRIPTION_CHARS}"),
        ("---\ndescription: d\nmodel: 1.5\n---\nprompt", "model must be a text"),
        ("---\ndescription: d\n---\n \n", "no system prompt"),
        ("---\ndescription: a: b\n---\nprompt", "mapping values are not allowed here (line 2)"),
        ("---\n\tdescription: d\n---\nprompt", "not YAML"),
        ("---\n- a\n---\nprompt", "no 'name: value' lines"),
        ("---\nd: 1\nd: 2\n---\nprompt", "'d' is given twice (line 3)"),
        ("---\na: &x [1]\nb: *x\n---\nprompt", "aliases"),
        ("---\ndescription: !!python/name:os.system\n---\nprompt", "tags"),
        ("---\ndescription: !!timestamp no\n---\nprompt", "tags"),
        ("---\ndescription: 2026-13-41\n---\nprompt", "can't be understood"),
        ("---\ndescription: \x07\n---\nprompt", "characters that no text has"),
        (f"---\na: {'[' * 4000}\n---\nprompt", "nested too deeply"),
    ],
)
def test_each_fault_says_what_to_change(text: str, fault: str) -> None:
    assert fault in faults(text)


def test_every_fault_is_told_and_what_is_right_is_kept() -> None:
    skill = parse_skill(b"---\nmodel: m\n---\n")

    assert skill.model == "m"
    assert len(skill.faults) == 2


@pytest.mark.parametrize(
    "data",
    [b"\x89PNG\r\n\x1a\n\x00", GOOD.encode("utf-16"), GOOD.encode() + b"\0", b"\xff\xfe" * 100],
)
def test_what_is_no_text_is_no_skill(data: bytes) -> None:
    assert faults(data) == "SKILL.md is not UTF-8 text: save it as that."


def test_a_huge_file_is_refused_unread() -> None:
    assert "larger than 256 KiB" in faults(b"-" * (MAX_FILE_BYTES + 1))


def test_a_long_prompt_is_none_of_our_business() -> None:
    prompt = "x" * (MAX_FILE_BYTES - 100)

    assert parse_skill(f"---\ndescription: d\n---\n{prompt}".encode()).system_prompt == prompt


def bomb() -> str:
    lines = ["a0: &a0 {x: y}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 30)]
    return "---\n" + "\n".join(lines) + "\ndescription: d\n---\nprompt"


SLOW = {
    "merge-bomb": bomb(),
    "brackets": "---\n" + "[" * 250_000 + "\n---\nprompt",
    "front-matter-brackets": "---\n" + "[" * (MAX_FRONT_MATTER_CHARS - 10) + "\n---\nprompt",
    "front-matter-braces": "---\n" + "{a: " * (MAX_FRONT_MATTER_CHARS // 4 - 10) + "\n---\nprompt",
    "questions": "---\n" + "? " * (MAX_FRONT_MATTER_CHARS // 2 - 10) + "\n---\nprompt",
    "flow-keys": "---\n{" + "a:b," * (MAX_FRONT_MATTER_CHARS // 4 - 10) + "\n---\nprompt",
    "no-end": "---\n" + "-- -\n" * 50_000,
    "spaces": "---" + " " * 250_000,
    "digits": "---\ndescription: " + "9" * 16_000 + "\n---\nprompt",
    "sexagesimal": "---\ndescription: 1" + ":1" * 8_000 + "\n---\nprompt",
    "quotes": "---\ndescription: '" + "''" * 8_000 + "\n---\nprompt",
}


@pytest.mark.parametrize("text", SLOW.values(), ids=SLOW.keys())
def test_no_file_takes_long(text: str) -> None:
    started = time.thread_time()

    faults(text)

    assert time.thread_time() - started < 1


@settings(max_examples=6 * settings.default.max_examples)
@given(st.text(st.sampled_from("-:!&*?|>{}[]'\"%@,# \nadn019.=<~\\xueo\ud800"), max_size=60))
def test_nothing_in_the_front_matter_makes_it_fail(text: str) -> None:
    skill = parse_skill(f"---\n{text}\n---\nprompt".encode(errors="replace"))

    skill.description.encode()
    (skill.model or "").encode()
