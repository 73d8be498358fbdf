import errno
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from prompts_app.errors import PromptExists, PromptNotFound
from prompts_app.prompts import Prompt, PromptSummary
from prompts_app.service import SystemPromptService
from sessions_app.errors import StorageFull, ValidationFailed
from sessions_app.store.records import DOCUMENT_LIMIT

TRAVERSALS = ["../outside.md", "..", "a/b.md", "a.md\x00.txt", "a.md\n", "/etc/passwd"]


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def filenames(prompts: SystemPromptService) -> list[str]:
    return [summary.filename for summary in prompts.list()]


def test_a_missing_directory_is_an_empty_list(
    prompts: SystemPromptService, directory: Path
) -> None:
    assert prompts.list() == []
    assert not directory.exists()


def test_a_created_prompt_can_be_read_and_is_listed(prompts: SystemPromptService) -> None:
    created = prompts.create("helpful.md", "Be helpful.\nAlways.")
    assert created == Prompt(filename="helpful.md", content="Be helpful.\nAlways.")
    assert prompts.get("helpful.md") == created
    assert prompts.list() == [
        PromptSummary(filename="helpful.md", preview="Be helpful. Always.", word_count=3)
    ]


def test_prompts_are_listed_by_name(prompts: SystemPromptService) -> None:
    for name in ("c.md", "a.txt", "b.md"):
        prompts.create(name, "text")
    assert filenames(prompts) == ["a.txt", "b.md", "c.md"]


def test_files_and_directories_that_we_make_are_private(
    prompts: SystemPromptService, directory: Path
) -> None:
    prompts.create("a.md", "text")
    assert mode_of(directory) == 0o700
    assert mode_of(directory / "a.md") == 0o600


def test_a_directory_that_stood_there_keeps_its_mode(
    prompts: SystemPromptService, directory: Path
) -> None:
    directory.mkdir()
    directory.chmod(0o755)
    prompts.create("a.md", "text")
    assert mode_of(directory) == 0o755


def test_creating_a_second_prompt_of_the_same_name_keeps_the_first(
    prompts: SystemPromptService,
    directory: Path,
) -> None:
    prompts.create("a.md", "first")
    with pytest.raises(PromptExists):
        prompts.create("a.md", "second")
    assert prompts.get("a.md").content == "first"
    assert os.listdir(directory) == ["a.md"]


def test_of_parallel_creates_exactly_one_succeeds(prompts: SystemPromptService) -> None:
    barrier = threading.Barrier(8)

    def create(number: int) -> str | None:
        barrier.wait()
        try:
            return prompts.create("a.md", f"text {number}").content
        except PromptExists:
            return None

    with ThreadPoolExecutor(8) as pool:
        written = [text for text in pool.map(create, range(8)) if text is not None]
    assert [prompts.get("a.md").content] == written


def test_readers_never_see_half_an_update(prompts: SystemPromptService) -> None:
    texts = {letter * 5000 for letter in "ab"}
    prompts.create("a.md", "a" * 5000)
    stop = threading.Event()

    def read() -> set[str]:
        seen = {prompts.get("a.md").content}
        while not stop.is_set():
            seen.add(prompts.get("a.md").content)
        return seen

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(read)
        for number in range(50):
            prompts.update("a.md", "ab"[number % 2] * 5000)
        stop.set()
        assert reader.result() <= texts


def test_an_update_replaces_the_whole_text(prompts: SystemPromptService) -> None:
    prompts.create("a.md", "a much longer text")
    assert prompts.update("a.md", "short") == Prompt(filename="a.md", content="short")
    assert prompts.get("a.md").content == "short"


def test_a_deleted_prompt_is_gone(prompts: SystemPromptService) -> None:
    prompts.create("a.md", "text")
    prompts.delete("a.md")
    assert prompts.list() == []
    with pytest.raises(PromptNotFound):
        prompts.get("a.md")


def test_an_unknown_prompt_can_be_neither_read_updated_nor_deleted(
    prompts: SystemPromptService,
    directory: Path,
) -> None:
    for action in (prompts.get, prompts.delete, lambda name: prompts.update(name, "text")):
        with pytest.raises(PromptNotFound):
            action("missing.md")
    assert not directory.exists()


@pytest.mark.parametrize("name", TRAVERSALS)
def test_a_hostile_name_never_reaches_the_disk(
    prompts: SystemPromptService, directory: Path, name: str, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("secret")
    for action in (
        prompts.get,
        prompts.delete,
        lambda name: prompts.update(name, "text"),
        lambda name: prompts.create(name, "text"),
    ):
        with pytest.raises(ValidationFailed) as refused:
            action(name)
        assert refused.value.details["field"] == "filename"
    assert outside.read_text() == "secret"
    assert not directory.exists()


def test_an_invalid_text_changes_nothing(prompts: SystemPromptService) -> None:
    prompts.create("a.md", "text")
    for content in ("", " \n", "x" * 10_000, "\udcff"):
        with pytest.raises(ValidationFailed):
            prompts.update("a.md", content)
        with pytest.raises(ValidationFailed):
            prompts.create("b.md", content)
    assert filenames(prompts) == ["a.md"]
    assert prompts.get("a.md").content == "text"


def test_a_symbolic_link_is_refused_and_never_followed(
    prompts: SystemPromptService, directory: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    prompts.create("good.md", "text")
    (directory / "link.md").symlink_to(secret)
    (directory / "dangling.md").symlink_to(tmp_path / "nowhere")

    for name in ("link.md", "dangling.md"):
        for action in (prompts.get, prompts.delete, lambda name: prompts.update(name, "text")):
            with pytest.raises(PromptNotFound):
                action(name)
        with pytest.raises(PromptExists):
            prompts.create(name, "text")
    assert filenames(prompts) == ["good.md"]
    assert secret.read_text() == "secret"
    assert not (tmp_path / "nowhere").exists()


def test_files_that_are_no_prompts_cost_only_themselves(
    prompts: SystemPromptService, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prompts.create("good.md", "text")
    (directory / "latin.md").write_bytes("caf\xe9".encode("latin-1"))
    (directory / "huge.md").write_bytes(b"x" * (DOCUMENT_LIMIT + 1))
    (directory / "folder.md").mkdir()
    (directory / "notes.json").write_text("{}")
    (directory / ".hidden.md").write_text("text")
    os.mkfifo(directory / "pipe.md")

    assert filenames(prompts) == ["good.md"]
    for name in ("latin.md", "huge.md", "folder.md", "pipe.md"):
        assert name in caplog.text
        with pytest.raises(PromptNotFound, match="left untouched"):
            prompts.get(name)
    for name in ("folder.md", "pipe.md"):
        with pytest.raises(PromptNotFound):
            prompts.update(name, "text")


def test_an_unusable_file_can_be_replaced_or_deleted(
    prompts: SystemPromptService, directory: Path
) -> None:
    prompts.create("good.md", "text")
    (directory / "latin.md").write_bytes(b"\xff")
    assert prompts.update("latin.md", "mended").content == "mended"
    (directory / "huge.md").write_bytes(b"x" * (DOCUMENT_LIMIT + 1))
    prompts.delete("huge.md")
    assert filenames(prompts) == ["good.md", "latin.md"]


def test_a_long_prompt_written_by_hand_can_be_read(
    prompts: SystemPromptService, directory: Path
) -> None:
    directory.mkdir()
    (directory / "long.md").write_text("word " * 10_000)
    assert prompts.list()[0].word_count == 10_000


def test_a_byte_order_mark_is_no_part_of_the_text(
    prompts: SystemPromptService, directory: Path
) -> None:
    directory.mkdir()
    (directory / "bom.md").write_bytes(b"\xef\xbb\xbfHello")
    assert prompts.get("bom.md").content == "Hello"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_loses_nothing_and_leaves_nothing_behind(
    prompts: SystemPromptService, directory: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    prompts.create("a.md", "old")

    def full(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageFull):
        prompts.update("a.md", "new")
    with pytest.raises(StorageFull):
        prompts.create("b.md", "new")
    assert os.listdir(directory) == ["a.md"]
    assert prompts.get("a.md").content == "old"
