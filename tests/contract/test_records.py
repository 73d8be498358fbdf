"""The contract of records, whatever they are kept in, and of what is kept in them."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chat.approvals.confirmation import Decision
from chat.approvals.store import CONFIRMATION_RECORDS, ConfirmationStore
from chat.errors import ConfirmationAlreadyDecided
from chat.summaries.failures import SummaryFailures
from cluster_app.objects.records import ObjectRecords
from cluster_app.redis.records import RedisRecords
from models_app.errors import ProfileExists, ProfileNotFound
from models_app.profiles import Profile, ProfileService
from prompts_app.errors import PromptExists, PromptNotFound
from prompts_app.service import SystemPromptService
from sessions_app.messages import ToolCall
from sessions_app.store.atomic import UnreadableFileError
from sessions_app.store.file_records import FileRecords
from sessions_app.store.records import (
    Records,
    SharedRecords,
    read_or_empty,
    sweep_records,
    unchanged_since,
)
from tests.contract.memory_storage import MemoryRecords

SESSION, OTHER_SESSION = "a1b2c3d4e5", "0123456789"
ASKED, DECIDED, USED = (
    f"{SESSION}/conf_{'0' * 32}.{kind}" for kind in ("asked", "decided", "used")
)
OTHER = f"{SESSION}/conf_{'1' * 32}.asked"
OF_OTHER_SESSION = f"{OTHER_SESSION}/conf_{'0' * 32}.asked"
LATER = time.time() + 3600
NAMES = rf"[a-z0-9]+\.(?:md|json)|{CONFIRMATION_RECORDS}"
LIMIT = 1000


@pytest.fixture(params=["files", "memory", "objects", "redis"])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> Records:
    if request.param == "redis":
        connection = request.getfixturevalue("redis_connection")
        return RedisRecords(connection, "conf", names=NAMES, seconds=60)
    if request.param == "memory":
        return MemoryRecords()
    if request.param == "objects":
        store = request.getfixturevalue("object_store").under("records")
        return ObjectRecords(store, names=NAMES, limit=LIMIT)
    return FileRecords(tmp_path / "records", names=NAMES, limit=LIMIT)


def everything(name: str) -> bool:
    return True


def nothing_is_foreign(data: bytes) -> bool:
    return False


def test_a_record_is_read_as_it_was_put(records: Records) -> None:
    assert records.read(ASKED) is None
    assert records.put(ASKED, b"one")
    assert records.put(ASKED, b"two")
    assert records.read(ASKED) == b"two"
    assert records.read(DECIDED) is None
    assert records.read(OF_OTHER_SESSION) is None


def test_names_are_listed_by_group(records: Records) -> None:
    assert list(records.names()) == list(records.names(SESSION)) == []
    for name in (OTHER, DECIDED, ASKED, "b.md", "a.md"):
        records.put(name, b"{}")
    assert list(records.names(SESSION)) == [ASKED, DECIDED, OTHER]
    assert list(records.names(OTHER_SESSION)) == []
    assert list(records.names()) == ["a.md", "b.md"]


@pytest.mark.parametrize("records", ["files", "memory", "redis"], indirect=True)
def test_a_groups_stamp_differs_after_each_put(records: SharedRecords) -> None:
    assert records.stamps() == {}
    seen = set()
    for name in (ASKED, ASKED, DECIDED):
        records.put(name, b"{}")
        assert list(records.stamps()) == [SESSION]
        seen.add(records.stamps()[SESSION])
    assert len(seen) == 3
    records.discard(SESSION)
    assert records.stamps() == {}


@pytest.mark.parametrize("name", [USED, "a.md"])
def test_of_many_who_create_a_record_exactly_one_succeeds(records: Records, name: str) -> None:
    with ThreadPoolExecutor(10) as pool:
        outcomes = list(pool.map(lambda n: records.put(name, b"%d" % n, exists=False), range(30)))
    assert sum(outcomes) == 1
    assert records.read(name) == b"%d" % outcomes.index(True)


def test_what_is_not_there_is_neither_read_nor_replaced_nor_deleted(records: Records) -> None:
    for name in (ASKED, "a.md"):
        assert records.read(name) is None
        assert not records.put(name, b"{}", exists=True)
        assert not records.delete(name)
        assert records.read(name) is None


def test_what_is_there_is_replaced_and_deleted(records: Records) -> None:
    for name in (ASKED, "a.md"):
        records.put(name, b"one")
        assert records.put(name, b"two", exists=True)
        assert records.read(name) == b"two"
        assert records.delete(name)
        assert records.read(name) is None


@pytest.mark.parametrize("name", [USED, "a.md"])
def test_a_record_is_swapped_only_as_what_it_was_seen_as(records: Records, name: str) -> None:
    assert not records.swap(name, b"one", b"two")
    assert records.read(name) is None
    records.put(name, b"one")
    assert not records.swap(name, b"another", b"two")
    assert records.swap(name, b"one", b"two")
    assert not records.swap(name, b"one", b"three")
    assert records.read(name) == b"two"


@pytest.mark.parametrize("records", ["files", "memory", "redis"], indirect=True)
@pytest.mark.parametrize("name", [USED, "a.md"])
def test_a_record_is_deleted_only_as_what_it_was_seen_as(records: SharedRecords, name: str) -> None:
    assert not records.swap(name, b"one", None)
    records.put(name, b"two")
    assert not records.swap(name, b"one", None)
    assert records.swap(name, b"two", None)
    assert records.read(name) is None


def test_of_many_who_swap_a_record_exactly_one_succeeds(records: Records) -> None:
    records.put(USED, b"one")
    with ThreadPoolExecutor(10) as pool:
        outcomes = list(pool.map(lambda n: records.swap(USED, b"one", b"%d" % n), range(30)))
    assert sum(outcomes) == 1
    assert records.read(USED) == b"%d" % outcomes.index(True)


def test_a_session_takes_its_records_with_it(records: Records) -> None:
    for name in (ASKED, OF_OTHER_SESSION):
        records.put(name, b"{}")
    records.discard(SESSION)
    records.discard(SESSION)
    assert list(records.names(SESSION)) == []
    assert list(records.names(OTHER_SESSION)) == [OF_OTHER_SESSION]


def test_all_that_match_are_read_as_they_are_now(records: Records) -> None:
    assert records.read_all(everything) == {}
    for name in ("b.md", "a.md", "c.json", ASKED):
        records.put(name, b"one")
    records.read_all(everything)
    records.put("b.md", b"two", exists=True)
    records.delete("a.md")
    records.put("d.md", b"three")
    found = records.read_all(lambda name: name.endswith(".md"))
    assert list(found.items()) == [("b.md", b"two"), ("d.md", b"three")]


@pytest.mark.parametrize("records", ["files", "objects"], indirect=True)
def test_a_record_that_is_too_large_is_not_read(records: Records) -> None:
    for name in ("a.md", ASKED):
        records.put(name, b"x" * (LIMIT + 1))
        with pytest.raises(UnreadableFileError, match="larger than"):
            records.read(name)
        assert read_or_empty(records, name) == b""
    found = records.read_all(everything)["a.md"]
    assert isinstance(found, UnreadableFileError)
    assert found.reason == f"larger than {LIMIT} bytes"


@pytest.mark.parametrize("records", ["files", "memory", "objects"], indirect=True)
def test_what_has_had_no_news_is_listed(records: Records) -> None:
    def session_of(name: str) -> str:
        return name.partition("/")[0]

    assert unchanged_since(records, LATER, session_of) == {}
    for name in (ASKED, OTHER, OF_OTHER_SESSION):
        records.put(name, b"{}")
    assert unchanged_since(records, LATER, session_of) == {
        SESSION: [ASKED, OTHER],
        OTHER_SESSION: [OF_OTHER_SESSION],
    }
    assert unchanged_since(records, LATER - 7200, session_of) == {}


@pytest.mark.parametrize("records", ["files", "memory", "objects"], indirect=True)
def test_what_has_not_changed_is_swept_but_for_foreign_records(records: Records) -> None:
    for name in (ASKED, DECIDED):
        records.put(name, b"{}")
    records.put(OTHER, b"foreign")
    assert sweep_records(records, 0, nothing_is_foreign) == 0
    assert sweep_records(records, LATER, lambda data: data == b"foreign") == 1
    assert list(records.names(SESSION)) == [OTHER]
    assert sweep_records(records, LATER, nothing_is_foreign) == 1
    assert sweep_records(records, LATER, nothing_is_foreign) == 0


def test_an_approval_is_answered_once_and_used_once(records: SharedRecords) -> None:
    store = ConfirmationStore(records, timeout_seconds=300)
    question = store.ask(
        session_id=SESSION,
        message_id="f1e2d3c4b5",
        call=ToolCall(id="call_1", name="delete", arguments={}),
        call_index=0,
        turn_id="turn",
    )
    assert store.pending(SESSION) == [question]
    store.decide(SESSION, Decision(confirmation_id=question.confirmation_id, approved=True))
    with pytest.raises(ConfirmationAlreadyDecided):
        store.decide(
            SESSION,
            Decision(confirmation_id=question.confirmation_id, approved=True, arguments={"x": 1}),
        )
    used = [store.consume(SESSION, question.confirmation_id) for _ in range(2)]
    assert used == [True, False]
    with pytest.raises(ConfirmationAlreadyDecided):
        store.decide(SESSION, Decision(confirmation_id=question.confirmation_id, approved=False))
    assert store.pending(SESSION) == []


def test_prompts_can_be_kept_in_any_records(records: Records) -> None:
    prompts = SystemPromptService(records)
    prompts.create("a.md", "Be brief.")
    with pytest.raises(PromptExists):
        prompts.create("a.md", "Be long.")
    prompts.update("a.md", "Be kind.")
    assert [summary.preview for summary in prompts.list()] == ["Be kind."]
    prompts.delete("a.md")
    for use in (prompts.get, prompts.delete, lambda name: prompts.update(name, "Be kind.")):
        with pytest.raises(PromptNotFound):
            use("a.md")


def test_profiles_can_be_kept_in_any_records(records: Records) -> None:
    profiles = ProfileService(records)
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


def test_failed_summaries_can_be_kept_in_any_records(records: Records) -> None:
    failures = SummaryFailures(records, clock=lambda: 1.0)
    for _ in range(2):
        failures.begin("a1b2c3d4e5", "due")
    assert failures.attempts("a1b2c3d4e5", "due") == 2
    assert [failure.session_id for failure in failures.list()] == ["a1b2c3d4e5"]
    failures.forget("a1b2c3d4e5")
    failures.forget("a1b2c3d4e5")
    assert failures.list() == []
