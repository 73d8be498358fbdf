import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tools_app.functions.docstrings import MAX_CHARS, read_docstring

GOOGLE = """Do it.

    For long (very long).

    Args:
        first: The first
            number: a small one.
        second (int, optional): The (second) one. Defaults to 3.
        *rest: Others.

    Returns:
        str: A text.

    Raises:
        ValueError: Never.
    """
NUMPY = """Do it.

    For long (very long).

    Parameters
    ----------
    first : int
        The first
        number: a small one.
    second : int, optional
        The (second) one. Defaults to 3.
    rest
        Others.

    Returns
    -------
    str
        A text.
    """
SPHINX = """Do it.

    For long (very long).

    :param first: The first
        number: a small one.
    :type first: int
    :param int second: The (second) one. Defaults to 3.
    :param rest: Others.
    :returns: A text.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_every_style_is_understood(text: str) -> None:
    read = read_docstring(text)

    assert read.description == "Do it.\n\nFor long (very long)."
    assert read.parameters == {
        "first": "The first number: a small one.",
        "second": "The (second) one. Defaults to 3.",
        "rest": "Others.",
    }


def test_a_docstring_that_no_style_explains_is_a_description() -> None:
    text = "Do it.\n\nArgs:\n    what without a colon"

    assert read_docstring(text).description == text


@pytest.mark.parametrize("text", [None, "", "  \n "])
def test_no_docstring_is_no_description(text: str | None) -> None:
    assert read_docstring(text).description == ""


def test_parentheses_in_long_lines_stay() -> None:
    line = f"Do it ((((((with {'many ' * 30}words))))))."

    assert read_docstring(line).description == line


def test_half_a_character_is_replaced() -> None:
    assert read_docstring("Do \ud800 it.").description == "Do \ufffd it."


SIZE = 1_000_000
HOSTILE = {
    "parentheses": "S.\n\nArgs:\n    " + "(" * SIZE + ": x",
    "lines of parentheses": "S.\n\nArgs:\n" + ("    " + "(" * 99 + ": x\n") * (SIZE // 99),
    "few parentheses": "S.\n\nArgs:\n" + ("    a((((" + "b" * 110 + ": x\n") * (SIZE // 110),
    "an open parenthesis": "S.\n\nArgs:\n    a(" + "a" * SIZE + ": x",
    "parentheses over lines": "S.\n\nArgs:\n    a" + "\n      (((a" * (SIZE // 10) + ": x",
    "spaces": "S.\n\nArgs:\n    a" + " " * SIZE + "b: x",
    "numpy spaces": "S.\n\nParameters\n----------\na" + " " * SIZE + "b",
    "numpy colons": "S.\n\nParameters\n----------\n" + "a : " * (SIZE // 4),
    "numpy defaults": "S.\n\nParameters\n----------\na\n    " + "default  - " * (SIZE // 11),
    "numpy dashes": "S.\n\nParameters\n----------\na\n    default " + "-" * SIZE,
    "sections": "S.\n\n" + "Args:\n    a: b\n" * (SIZE // 15),
    "sphinx": ":param a: b\n" * (SIZE // 12),
    "sphinx defaults": ":param a: " + "defaults to " * (SIZE // 12),
    "epydoc": "@" + "a" * SIZE,
    "line breaks": "\n" * SIZE,
    "tabs": "a\n" + "\t" * SIZE + "b",
    "colons": ":" * SIZE,
    "deprecated": ":deprecated: " + "1." * SIZE,
    "returns": "S.\n\nReturns:\n    " + "]" * SIZE,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_docstring_is_read_in_time(text: str) -> None:
    read_docstring("Load the parser.")
    started = time.process_time()

    read = read_docstring(text)

    assert time.process_time() - started < 1
    assert len(read.description) <= MAX_CHARS


PIECES = [
    "Args:",
    "Parameters",
    "----------",
    ":param a:",
    "a (int):",
    "\n",
    "\n    ",
    " : ",
    "x",
    "(",
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=40).map("".join))
@example(" : :param a:")
def test_any_docstring_can_be_read(text: str) -> None:
    read_docstring(text)
