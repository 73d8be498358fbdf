"""The search: right at any time, whatever the index knows."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from search_app.index import IndexUnavailable
from search_app.search_request import read_cursor
from search_app.service import FEW
from sessions_app.errors import ValidationFailed
from sessions_app.messages import AssistantMessage, Attachment, SystemMessage, UserMessage
from sessions_app.session import Session, with_metadata
from tests.unit.search_app.conftest import FIRST_DAY, Archive, MakeArchive

A, B, C = "aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc"
WORDS = st.sampled_from(["apfel", "Birne", "Straße", "東京", "a-b", "über", "x1", '"', "!"])


def day(number: int) -> str:
    return f"2026-11-{number:02}T10:00:00.000000+00:00"


def say(archive: Archive, session_id: str, **fields: Any) -> None:
    """Add a message to a session, later than all others."""
    message = UserMessage(
        **{"content": "", "message_id": "0123456789", "timestamp": day(22), **fields}
    )

    def change(session: Session) -> Session:
        changed = with_metadata(session, now=day(22))
        return msgspec.structs.replace(changed, messages=(*session.messages, message))

    archive.repository.update(session_id, change)


@pytest.fixture(params=["scan", "index"])
def filled(archive: Archive, request: pytest.FixtureRequest) -> Iterator[Archive]:
    """Return sessions that are searched by reading them, or with the index."""
    archive.keep(A, "Ein Apfel, eine Birne", "東京タワー für Übergrößen", updated_at=day(1))
    archive.keep(B, "Noch ein Apfel", "Keine Straße", updated_at=day(3))
    archive.keep(C, "apfel", "-", "apfel", updated_at=day(2))
    if request.param == "index":
        archive.updater.fill()
    yield archive
    assert archive.results("apfel").index == {"index": "ready"}.get(request.param, "scan")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("APFEL", [(B, 0), (C, 2), (C, 0), (A, 0)]),
        ("apfel birne", [(A, 0)]),
        ("apfel -birne", [(B, 0), (C, 2), (C, 0)]),
        ('"ein apfel"', [(B, 0), (A, 0)]),
        ("ubergr*", [(A, 1)]),
        ("STRASSE", [(B, 1)]),
        ("京", [(A, 1)]),
        ("京タワ", [(A, 1)]),
        ("kürbis", []),
        ("-", []),
        ("-apfel", []),
    ],
)
def test_words_are_found_newest_sessions_first(
    filled: Archive, query: str, found: list[tuple[str, int]]
) -> None:
    assert filled.find(query) == found


def test_results_are_filtered(filled: Archive) -> None:
    assert filled.find("ein", role="assistant") == []
    assert filled.find("keine", role="assistant") == [(B, 1)]
    assert filled.find("apfel", model="other") == []
    assert len(filled.find("apfel", model="qwen3:14b")) == 4
    assert filled.find("apfel", since=day(22)) == []
    assert len(filled.find("apfel", until=day(22))) == 4


def test_pages_follow_each_other(filled: Archive) -> None:
    found: list[tuple[str, int]] = []
    cursor = None
    while True:
        page = filled.results("apfel", limit=1, cursor=cursor)
        found += [(one.metadata.session_id, one.entry.place) for one in page.found]
        assert page.total_estimate >= len(page.found)
        if page.next_cursor is None:
            break
        cursor = read_cursor(page.next_cursor.text())
    assert found == filled.find("apfel")


def test_what_changes_meanwhile_shifts_no_page(filled: Archive) -> None:
    first = filled.results("apfel", limit=2)
    say(filled, B, content="Apfelmus")  # it comes first now, and is on no later page
    filled.keep("dddddddddd", "apfel", updated_at=day(23))
    rest = filled.find("apfel", cursor=first.next_cursor)
    assert rest == [(C, 0), (A, 0)]


def test_a_cursor_holds_for_an_index_that_was_built_anew(archive: Archive) -> None:
    for number, session_id in enumerate((A, B, C)):
        archive.keep(session_id, "apfel", "", "apfel", updated_at=day(3 - number))
    archive.updater.fill()
    first = archive.results("apfel", limit=1)
    assert [one.entry.place for one in first.found] == [2]
    rest = [(A, 0), (B, 2), (B, 0), (C, 2), (C, 0)]
    assert archive.find("apfel", cursor=first.next_cursor) == rest
    archive.index.remove()
    assert archive.find("apfel", cursor=first.next_cursor) == rest
    archive.updater.fill()
    assert archive.find("apfel", cursor=first.next_cursor) == rest
    archive.repository.delete(A)
    archive.index.remove()
    archive.updater.fill()
    assert archive.find("apfel", cursor=first.next_cursor) == rest[1:]


def test_what_was_written_just_now_is_found(filled: Archive) -> None:
    say(filled, A, content="Kürbis")
    assert filled.find("kurbis") == [(A, 2)]
    assert filled.find("birne") == [(A, 0)]


def test_deleted_sessions_are_not_found(filled: Archive) -> None:
    filled.repository.delete(B)
    assert filled.find("apfel") == [(C, 2), (C, 0), (A, 0)]


def test_a_file_that_was_edited_in_place_is_found(filled: Archive, tmp_path: Path) -> None:
    path = tmp_path / "chat_sessions" / f"{B}.json"
    path.write_text(path.read_text().replace("Straße", "Kartoffel"))
    assert filled.find("kartoffel") == [(B, 1)]
    assert filled.find("straße") == []


def test_unreadable_sessions_are_left_out(filled: Archive, tmp_path: Path) -> None:
    (tmp_path / "chat_sessions" / f"{B}.json").write_text("{")
    assert filled.find("apfel") == [(C, 2), (C, 0), (A, 0)]


def test_titles_summaries_and_names_of_files_are_found(archive: Archive) -> None:
    archive.keep(A, "hello")
    archive.repository.update(
        A,
        lambda session: with_metadata(
            session,
            now=day(22),
            title="Möwen",
            summary={"summary": "Von Vögeln.", "topics": ["Meer"]},
        ),
    )
    photo = Attachment(id="sha256:0", name="strand.png", media_type="image/png", size=1)
    say(archive, A, attachments=(photo,))
    for _ in ("scan", "index"):
        roles = {
            word: [found.entry.role for found in archive.results(word).found]
            for word in ("mowen", "vogeln", "meer", "strand")
        }
        assert roles == {
            "mowen": ["title"], "vogeln": ["summary"], "meer": ["summary"], "strand": ["user"]
        }  # fmt: skip
        archive.updater.fill()


def test_system_prompts_are_found_only_if_they_are_asked_for(archive: Archive) -> None:
    prompt = SystemMessage(content="Be a pirate", message_id="0", timestamp=FIRST_DAY)
    session = archive.keep(A, "Who is a pirate?")
    archive.repository.update(
        A, lambda _: msgspec.structs.replace(session, messages=(prompt, *session.messages))
    )
    for _ in ("scan", "index"):
        assert archive.find("pirate") == [(A, 1)]
        assert archive.find("pirate", role="system") == [(A, 0)]
        archive.updater.fill()


def test_replaced_answers_are_not_found(archive: Archive) -> None:
    session = archive.keep(A, "question", "new answer")
    answer = session.messages[1]
    assert isinstance(answer, AssistantMessage)
    old = msgspec.structs.replace(answer, content="old answer", message_id="1111111111")
    changed = msgspec.structs.replace(answer, variants=((old,),))
    archive.repository.update(
        A, lambda _: msgspec.structs.replace(session, messages=(session.messages[0], changed))
    )
    assert archive.find("answer") == [(A, 1)]
    assert archive.find("old") == []


# --- The index ----------------------------------------------------------------------------------


def test_an_index_knows_what_did_not_change(make_archive: MakeArchive) -> None:
    archive = make_archive()
    archive.keep(A, "apfel")
    assert archive.results("apfel").index == "scan"
    assert archive.updater.asked == 1
    archive.updater.fill()
    assert archive.results("apfel").index == "ready"
    assert archive.updater.asked == 1
    another = make_archive()
    assert another.results("apfel").index == "ready"
    assert another.updater.asked == 0
    assert another.search.state() == ("ready", 0)


def test_an_index_is_ready_but_for_a_few_sessions(archive: Archive) -> None:
    archive.keep(A, "apfel")
    archive.updater.fill()
    for number in range(FEW + 1):
        archive.keep(f"{number:010x}", "birne")
        if number < FEW:
            continue
        results = archive.results("birne", limit=1000)
        assert (results.index, len(results.found)) == ("building", FEW + 1)
    archive.updater.fill()
    assert archive.results("birne").index == "ready"


def test_a_deleted_index_is_built_anew(archive: Archive) -> None:
    archive.keep(A, "apfel")
    archive.updater.fill()
    archive.path.unlink()
    assert archive.results("apfel").index == "scan"
    assert archive.find("apfel") == [(A, 0)]
    archive.updater.fill()
    assert archive.results("apfel").index == "ready"
    assert archive.find("apfel") == [(A, 0)]


def test_an_index_is_built_before_there_are_sessions(archive: Archive) -> None:
    assert archive.results("apfel").index == "scan"
    assert archive.updater.asked == 1
    archive.updater.fill()
    assert archive.results("apfel").index == "ready"
    assert archive.updater.asked == 1


def _garbage(path: Path) -> None:
    path.write_bytes(b"no database at all" * 1000)


def _cut_off(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    os.truncate(path, path.stat().st_size // 2)


def _other_tables(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("DROP TABLE words; DROP TABLE meta;")


def _other_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE meta SET version = 'of old'")
        connection.commit()


@pytest.mark.parametrize("damage", [_garbage, _cut_off, _other_tables, _other_version])
def test_a_broken_index_is_built_anew(archive: Archive, damage: Any) -> None:
    for number in range(30):
        archive.keep(f"{number:010x}", f"apfel {number} " * 50)
    archive.updater.fill()
    damage(archive.path)
    found = archive.find("apfel", limit=100)
    assert len(found) == 30
    assert archive.updater.asked == 1
    archive.updater.fill()
    assert archive.results("apfel").index == "ready"
    assert archive.find("apfel", limit=100) == found


def test_a_locked_index_is_done_without(archive: Archive) -> None:
    archive.keep(A, "apfel")
    archive.updater.fill()
    with closing(sqlite3.connect(archive.path, isolation_level=None)) as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("UPDATE meta SET version = version")
        results = archive.results("apfel")
    assert len(results.found) == 1
    assert results.index in {"ready", "scan"}  # readers of a WAL wait for no writer


def test_an_index_in_place_of_which_a_directory_stands_is_done_without(archive: Archive) -> None:
    archive.keep(A, "apfel")
    archive.path.mkdir(parents=True)
    results = archive.results("apfel")
    assert (len(results.found), results.index) == (1, "scan")


def test_sqlite_without_full_text_search_is_done_without(make_archive: MakeArchive) -> None:
    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = sqlite3.connect(*arguments, **options)
        connection.set_authorizer(
            lambda action, _name, module, *_: (
                sqlite3.SQLITE_DENY
                if action == sqlite3.SQLITE_CREATE_VTABLE and module == "fts5"
                else sqlite3.SQLITE_OK
            )
        )
        return connection

    archive = make_archive(connect=connect)
    archive.keep(A, "apfel")
    assert archive.results("apfel").index == "scan"
    with pytest.raises(IndexUnavailable):
        archive.updater.fill()
    results = archive.results("apfel")
    assert (len(results.found), results.index) == (1, "scan")


def test_a_scan_ends_its_page_when_it_takes_too_long(make_archive: MakeArchive) -> None:
    archive = make_archive(scan_seconds=0)
    for number in range(1, 4):
        archive.keep(f"{number:010x}", f"apfel {number}", updated_at=day(number))
    found, cursor, pages = [], None, 0
    while True:
        page = archive.results("apfel", cursor=cursor)
        found += [one.entry.text for one in page.found]
        pages += 1
        if page.next_cursor is None:
            assert page.complete
            break
        assert not page.complete
        cursor = page.next_cursor
    assert found == ["apfel 3", "apfel 2", "apfel 1"]
    assert pages == 3


def test_the_number_of_many_results_is_estimated(archive: Archive) -> None:
    for number in range(12):
        archive.keep(f"{number:010x}", *(["apfel"] * 100), updated_at=day(number + 1))
    archive.updater.fill()
    estimate = archive.results("apfel").total_estimate
    assert 1_000 <= estimate <= 1_400


@settings(
    max_examples=settings.default.max_examples // 2,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    conversations=st.lists(st.lists(st.lists(WORDS, max_size=4), max_size=3), max_size=4),
    query=st.lists(WORDS, max_size=3),
)
def test_index_and_scan_find_the_same(
    make_archive: MakeArchive,
    tmp_path_factory: pytest.TempPathFactory,
    make_session: Any,
    conversations: list[list[list[str]]],
    query: list[str],
) -> None:
    archive = Archive(tmp_path_factory.mktemp("archive"), make_session)
    for number, messages in enumerate(conversations):
        texts = [" ".join(words) for words in messages]
        archive.keep(f"{number:010x}", *texts, updated_at=day(number + 1))
    wanted = " ".join(query)
    scanned = archive.find(wanted)
    archive.updater.fill()
    assert archive.find(wanted) == scanned


@pytest.mark.parametrize("text", ["AAAA", "!", "", "W10", "WyJhIl0", "é"])
def test_a_cursor_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValidationFailed):
        read_cursor(text)
