"""The contract of documents, whatever they are kept in, and of prompts over them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chat.summaries.failures import SummaryFailures
from cluster_app.objects.documents import ObjectDocuments
from models_app.errors import ProfileExists, ProfileNotFound
from models_app.profiles import Profile, ProfileService
from prompts_app.errors import PromptExists, PromptNotFound
from prompts_app.service import SystemPromptService
from sessions_app.store.atomic import UnreadableFileError
from sessions_app.store.documents import MAX_DOCUMENT_BYTES, Documents, FileDocuments
from tests.contract.memory_storage import MemoryDocuments


@pytest.fixture(params=["files", "memory", "objects"])
def documents(request: pytest.FixtureRequest, tmp_path: Path) -> Documents:
    if request.param == "memory":
        return MemoryDocuments()
    if request.param == "objects":
        return ObjectDocuments(request.getfixturevalue("object_store").under("texts"))
    return FileDocuments(tmp_path / "texts")


def test_a_document_is_read_as_it_was_written(documents: Documents) -> None:
    assert documents.list() == []
    documents.create("b.md", b"one")
    documents.create("a.md", b"two")
    documents.replace("b.md", b"three")
    assert documents.list() == ["a.md", "b.md"]
    assert [documents.read(name) for name in documents.list()] == [b"two", b"three"]
    documents.delete("a.md")
    assert documents.list() == ["b.md"]


def test_of_many_who_create_a_name_exactly_one_succeeds(documents: Documents) -> None:
    def create(number: int) -> bool:
        try:
            documents.create("a.md", b"%d" % number)
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(10) as pool:
        outcomes = list(pool.map(create, range(30)))
    assert sum(outcomes) == 1
    assert documents.read("a.md") == b"%d" % outcomes.index(True)


def test_what_is_not_there_is_neither_read_nor_replaced_nor_deleted(documents: Documents) -> None:
    for use in (
        lambda: documents.read("a.md"),
        lambda: documents.replace("a.md", b"text"),
        lambda: documents.delete("a.md"),
    ):
        with pytest.raises(FileNotFoundError):
            use()
    assert documents.list() == []


def test_prompts_can_be_kept_in_any_documents(documents: Documents) -> None:
    prompts = SystemPromptService(documents)
    prompts.create("a.md", "Be brief.")
    with pytest.raises(PromptExists):
        prompts.create("a.md", "Be long.")
    prompts.update("a.md", "Be kind.")
    assert [summary.preview for summary in prompts.list()] == ["Be kind."]
    prompts.delete("a.md")
    with pytest.raises(PromptNotFound):
        prompts.get("a.md")


def test_profiles_can_be_kept_in_any_documents(documents: Documents) -> None:
    profiles = ProfileService(documents)
    profile = Profile(name="work", provider="ollama", model="m")
    profiles.create(profile)
    with pytest.raises(ProfileExists):
        profiles.create(profile)
    larger = Profile(name="work", provider="ollama", model="larger")
    profiles.update(larger)
    assert profiles.list().profiles == [larger]
    profiles.delete("work")
    for use in (profiles.get, profiles.delete):
        with pytest.raises(ProfileNotFound):
            use("work")


def test_failed_summaries_can_be_kept_in_any_documents(documents: Documents) -> None:
    failures = SummaryFailures(documents, clock=lambda: 1.0)
    for _ in range(2):
        failures.begin("a1b2c3d4e5", "due")
    assert failures.attempts("a1b2c3d4e5", "due") == 2
    assert [failure.session_id for failure in failures.list()] == ["a1b2c3d4e5"]
    failures.forget("a1b2c3d4e5")
    failures.forget("a1b2c3d4e5")
    assert failures.list() == []


def test_a_snapshot_has_every_document_as_it_is_now(documents: Documents) -> None:
    assert documents.snapshot().list() == []
    documents.create("b.md", b"one")
    documents.create("a.md", b"two")
    documents.snapshot()
    documents.replace("b.md", b"three")
    documents.delete("a.md")
    documents.create("c.md", b"four")
    now = documents.snapshot()
    assert [now.read(name) for name in now.list()] == [b"three", b"four"]
    with pytest.raises(FileNotFoundError):
        now.read("a.md")


def test_a_document_that_is_too_large_is_not_read(documents: Documents) -> None:
    documents.create("a.md", b"x" * (MAX_DOCUMENT_BYTES + 1))
    for reader in (documents, documents.snapshot()):
        assert reader.list() == ["a.md"]
        with pytest.raises(UnreadableFileError, match="larger than"):
            reader.read("a.md")


def test_a_document_can_be_put_whether_there_is_one_or_not(documents: Documents) -> None:
    for data in (b"one", b"two"):
        documents.put("a.md", data)
        assert documents.read("a.md") == data
