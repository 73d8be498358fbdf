"""The files of the chat page."""

import hashlib
import re
from pathlib import Path

import pytest

from mochi_project.chat_page import CONTENT_TYPES, read

FOLDER = Path(__file__).parents[3] / "examples" / "chat-page"
SCRIPTS = sorted(name for name in CONTENT_TYPES if re.fullmatch(r"\w+\.js", name))
VENDOR = FOLDER / "vendor"
MAKES_MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|"
    r"setTimeout\([\"'`]|createContextualFragment|DOMParser|srcdoc"
)


def test_every_file_of_the_page_is_named_and_read() -> None:
    files = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()}
    licences = {f"vendor/{name}.LICENSE" for name in ("markdown-it", "highlight", "katex")}
    assert files == {*CONTENT_TYPES, *licences, "vendor/SHA256SUMS"}
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
    imported = re.findall(r"(?:from|import)\W+\"([^\"]+)\"", read(name).decode())
    assert {path.removeprefix("./") for path in imported} <= set(CONTENT_TYPES)


def test_libraries_are_the_copies_that_the_script_made() -> None:
    lines = (VENDOR / "SHA256SUMS").read_text().splitlines()
    made = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    files = {path for path in VENDOR.rglob("*") if path.is_file()} - {VENDOR / "SHA256SUMS"}
    assert made == {
        path.relative_to(VENDOR).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def test_libraries_have_the_versions_that_the_script_pins() -> None:
    copies = [
        ("markdown-it.js", r"markdown-it ([\d.]+)"),
        ("highlight.js", r"Highlight\.js v([\d.]+)"),
        ("katex.css", r"\.katex-version:after{content:\"([\d.]+)\"}"),
    ]
    shown = [re.findall(version, (VENDOR / name).read_text())[0] for name, version in copies]
    script = (FOLDER.parents[1] / "scripts/vendor").read_text()
    assert shown == re.findall(r"^take \S+ ([\d.]+) ", script, re.MULTILINE)
