"""The files of the chat page."""

import re
from pathlib import Path

import pytest

from mochi_project.chat_page import CONTENT_TYPES, read

FOLDER = Path(__file__).parents[3] / "examples" / "chat-page"
SCRIPTS = sorted(name for name in CONTENT_TYPES if name.endswith(".js"))
MAKES_MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|"
    r"setTimeout\([\"'`]|createContextualFragment|DOMParser|srcdoc"
)


def test_every_file_of_the_page_is_named_and_read() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(CONTENT_TYPES)
    assert all(read(name) == (FOLDER / name).read_bytes() for name in CONTENT_TYPES)


def test_the_page_has_no_inline_code_or_style_and_asks_no_other_server() -> None:
    page = read("index.html").decode()
    assert re.findall(r"<script(?![^>]*\ssrc=)|<style|\son\w+=|\sstyle=", page) == []
    assert re.findall(r"(?:src|href)=\"(?:https?:)?//", page) == []


def test_every_field_of_the_page_has_a_label() -> None:
    page = read("index.html").decode()
    fields = re.findall(r"<(?:input|select|textarea)\b[^>]*\sid=\"([^\"]+)\"", page)
    wrapped = re.findall(r"<label><input id=\"([^\"]+)\"", page)
    assert fields
    assert [name for name in fields if f'for="{name}"' not in page and name not in wrapped] == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_makes_markup_or_code_of_text(name: str) -> None:
    assert MAKES_MARKUP.findall(read(name).decode()) == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_import_files_of_the_page_alone(name: str) -> None:
    imported = re.findall(r"from \"([^\"]+)\"", read(name).decode())
    assert {path.removeprefix("./") for path in imported} <= set(CONTENT_TYPES)
