"""Texts of strangers on a terminal: they are read, and nothing else."""

import json

import pytest

from mochi_project.screen_text import printable, steering_escaped

STEERING = [
    "\x1b[2J",  # clears the screen
    "\x1b]0;title\x07",
    "\x1b]52;c;cm0gLXJm\x07",  # writes to the clipboard
    "\x9b2J",  # the same in one character
    "over\rwritten",
    "erased\x08\x7f",
    "\u202etxt.exe",  # from here on backwards
    "two\u2028lines",
    "\ud800",  # can't be written at all
]


@pytest.mark.parametrize("text", STEERING)
def test_nothing_steers_the_terminal(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert shown != text


@pytest.mark.parametrize(
    "text",
    [
        "two\nlines\tand a tab",
        "caf\u00e9 \u00ab\u00a0oui\u00a0\u00bb",  # blanks that do not break
        "\u6771\u4eac\u3000\u5927\u962a",  # a wide blank
        "\U0001f469\u200d\U0001f469\u200d\U0001f467\ufe0f",  # one picture of three characters
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # a Persian word
    ],
)
def test_what_languages_need_stays(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize("text", STEERING)
def test_json_on_the_screen_is_the_same_json(text: str) -> None:
    shown = steering_escaped(json.dumps({"text": text}, ensure_ascii=False))
    assert json.loads(shown) == {"text": text}
    assert shown.isprintable()
