"""What the docs say of the code is what the code says, and what they link to is there."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
DECISIONS = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))
MAP = ROOT / "docs/architecture.md"
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
ANCHOR = re.compile(r'<a id="([^"]+)">')
CODE_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def docs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_script", ROOT / "scripts/docs.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_are_what_the_code_says(docs: ModuleType) -> None:
    assert docs.stale() == [], "run `just docs` and commit what it wrote"


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_commands_are_shown_as_people_with_a_wheel_run_them(page: Path) -> None:
    shown = re.findall(r"manage\.py[ \n]+(\S+)", page.read_text())
    assert {command.strip("`,.)") for command in shown} <= {"runserver"}


def test_the_readme_is_read_in_a_minute_and_shows_the_page() -> None:
    readme = (ROOT / "README.md").read_bytes()
    pictures = re.findall(rb'src(?:set)?="([^"]+)"', readme)

    assert len(readme) <= 9 * 1024
    assert sorted(pictures) == [b"docs/images/chat-dark.png", b"docs/images/chat-light.png"]
    assert all((ROOT / path.decode()).is_file() for path in pictures)


def test_every_section_that_can_be_generated_is_somewhere(docs: ModuleType) -> None:
    marked = {found[2] for page in PAGES for found in docs.MARKED.finditer(page.read_text("utf-8"))}

    assert marked == docs.sections().keys()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    dead = [
        link
        for link in LINK.findall(CODE_BLOCK.sub("", page.read_text("utf-8")))
        if not link.startswith(("http://", "https://")) and not leads_somewhere(page, link)
    ]

    assert dead == []


@pytest.mark.parametrize("page", ["durability.md", "bounds.md", "cluster.md"])
def test_the_tests_that_are_named_as_proof_are_there(page: str) -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / page).read_text("utf-8")))
    written = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    }

    assert named
    assert named - written == set()


def test_the_files_and_folders_that_the_map_names_are_there() -> None:
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)*/(?:[a-z_]+\.py)?)`", MAP.read_text("utf-8"))

    assert len(named) > 30
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_decisions_have_the_form_that_their_list_describes(page: Path) -> None:
    text = page.read_text("utf-8")
    parts = re.findall(r"^\*\*(.+?)\.?\*\*", text, re.MULTILINE)

    assert text.startswith(f"# {int(page.name[:4])}. ")
    assert [part for part in parts if part in ("Context", "Decision")] == ["Context", "Decision"]
    assert {"Consequence", "What it costs"} & set(parts)
    assert [line for line in text.splitlines() if len(line) > 120] == []


def test_decisions_that_hold_are_pointed_to_from_the_code() -> None:
    paths = [*ROOT.glob("*_app/**/*.py"), *ROOT.glob("chat/**/*.py"), *ROOT.glob("mochi_*/**/*.py")]
    code = "".join(path.read_text("utf-8") for path in [*paths, ROOT / "pyproject.toml"])
    pointed_to = {
        number
        for pointer in re.findall(r"docs/decisions/(\d{4}(?:(?:,| and) \d{4})*)", code)
        for number in re.findall(r"\d{4}", pointer)
    }
    holding = {
        page.name[:4] for page in DECISIONS if "\nOvertaken by " not in page.read_text("utf-8")
    }

    assert holding - pointed_to == set()


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path) if path else page
    if not target.exists():
        return False
    return not anchor or anchor in anchors(target.read_text("utf-8"))


def anchors(text: str) -> set[str]:
    slugs = {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in HEADING.findall(CODE_BLOCK.sub("", text))
    }
    return slugs | set(ANCHOR.findall(text))
