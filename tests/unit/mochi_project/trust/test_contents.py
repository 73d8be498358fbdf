"""What a folder can execute: found whole, noticed when it changes, and bounded."""

import os
from pathlib import Path

import pytest

from mochi_project.trust import contents
from mochi_project.trust.contents import FolderLayout, Part, parts_of


def parts(folder: Path, env: bytes | None = None) -> dict[str, Part]:
    layout = FolderLayout(
        folder=folder,
        env=env,
        tools=folder / "tools",
        agents=folder / "agents",
        mcp=folder / "mcp.json",
    )
    return dict(parts_of(layout))


def write(path: Path, text: str = "x = 1") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_fresh_folder_needs_no_trust(tmp_path: Path) -> None:
    write(tmp_path / "chat_sessions" / "0123456789.json", "{}")
    write(tmp_path / "system_prompts" / "helpful.md", "Be.")
    (tmp_path / "tools").mkdir()
    (tmp_path / "agents" / "agent_chats").mkdir(parents=True)

    assert parts(tmp_path) == {}


def test_whatever_can_be_imported_run_or_read_as_settings_is_a_part(tmp_path: Path) -> None:
    write(tmp_path / "tools" / "a.py")
    write(tmp_path / "tools" / "package" / "deep" / "b.py")
    write(tmp_path / "agents" / "clerk" / "clerk.py")
    write(tmp_path / "mcp.json", "{}")
    write(tmp_path / ".mochi" / "queue.sqlite3")

    found = parts(tmp_path, env=b"MOCHI_PORT=1")

    assert {name: part.files for name, part in found.items()} == {
        "env": (".env",),
        "tools": ("a.py", "package/deep/b.py"),
        "agents": ("clerk/clerk.py",),
        "mcp": ("mcp.json",),
        "state": ("queue.sqlite3",),
    }


def test_profiles_are_a_part_where_they_name_an_address_or_a_key(tmp_path: Path) -> None:
    folder = tmp_path / "profiles"
    write(folder / "plain.json", '{"provider": "openai", "model": "m"}')
    write(folder / "broken.json", '{"base_url": "http://evil"')
    write(folder / "notes.txt", '{"base_url": "http://evil"}')
    assert parts(tmp_path) == {}

    address = write(folder / "away.json", r'{"model": "m", "base\u005furl": "http://evil"}')
    write(folder / "key.json", '{"api_key_env": "OPENAI_API_KEY"}')
    first = parts(tmp_path)["profiles"]
    assert first.files == ("away.json", "key.json")

    write(address, '{"base_url": "http://evil", "model": "n", "system_prompt": "Be brief."}')
    assert parts(tmp_path)["profiles"] == first, "changed through the API, for example"
    write(address, '{"base_url": "http://worse", "model": "m"}')
    assert parts(tmp_path)["profiles"].digest != first.digest


def test_profiles_that_are_too_large_to_be_looked_at_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "MAX_BYTES", 100)
    monkeypatch.setattr(contents, "MAX_PROFILE_BYTES", 60)
    for name in "ab":
        write(tmp_path / "profiles" / f"{name}.json", '{"provider": "openai", "model": "m"}')

    assert not parts(tmp_path)["profiles"].whole


@pytest.mark.parametrize(
    "change",
    [
        lambda tools: write(tools / "a.py", "x = 2"),
        lambda tools: write(tools / "new.py"),
        lambda tools: write(tools / "package" / "deep" / "helper.py", "x = 2"),
        lambda tools: write(tools / "package" / "native.so"),
        lambda tools: (tools / "a.py").rename(tools / "b.py"),
        lambda tools: (tools / "package").rename(tools / "other"),
        lambda tools: (tools / "linked.py").symlink_to(tools.parent / "outside.py"),
    ],
)
def test_a_change_of_code_changes_the_digest(tmp_path: Path, change) -> None:
    tools = tmp_path / "tools"
    write(tools / "a.py")
    write(tools / "package" / "deep" / "helper.py")
    write(tmp_path / "outside.py")
    before = parts(tmp_path)["tools"].digest

    assert parts(tmp_path)["tools"].digest == before
    change(tools)
    assert parts(tmp_path)["tools"].digest != before


def test_what_python_caches_and_what_is_no_code_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path / "tools" / "a.py")
    before = parts(tmp_path)

    write(tmp_path / "tools" / "__pycache__" / "a.cpython-313.pyc")
    write(tmp_path / "tools" / "notes.txt")

    assert parts(tmp_path) == before


def test_a_change_behind_a_link_is_noticed(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / "a.py")
    (tmp_path / "tools").symlink_to(tmp_path / "elsewhere")
    before = parts(tmp_path)["tools"].digest

    write(tmp_path / "elsewhere" / "a.py", "x = 2")

    assert parts(tmp_path)["tools"].digest != before


@pytest.mark.timeout(10)
def test_links_in_circles_pipes_and_dangling_links_hold_nothing_up(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    write(tools / "a.py")
    (tools / "circle").symlink_to(tools)
    (tools / "nowhere.py").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tools / "pipe.py")
    os.mkfifo(tmp_path / "mcp.json")

    found = parts(tmp_path)

    assert found["tools"].files == ("a.py", "nowhere.py", "pipe.py")
    assert found["mcp"].files == ("mcp.json",)


def test_beyond_the_bounds_sizes_and_times_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "MAX_FILES", 1)
    write(tmp_path / "tools" / "a.py")
    later = write(tmp_path / "tools" / "b.py")
    before = parts(tmp_path)["tools"]

    os.utime(later, ns=(1, 1))

    assert parts(tmp_path)["tools"].digest != before.digest
    assert before.whole


def test_more_names_than_can_be_looked_at_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "MAX_ENTRIES", 10)
    for number in range(20):
        write(tmp_path / "tools" / f"{number}.py")

    found = parts(tmp_path)["tools"]

    assert not found.whole
    assert len(found.files) < 10
