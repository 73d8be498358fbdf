"""The records of questions and answers: broken ones, changed ones, old ones."""

import json
import os
import stat

import msgspec
import pytest

from chat.approvals.store import ASKED, DECIDED, USED
from chat.errors import ConfirmationNotFound
from tests.unit.chat.approvals.questions import (
    CALL,
    LATE,
    MESSAGE,
    OTHER_SESSION,
    SESSION,
    TIMEOUT,
    approve,
)


def test_files_and_directories_are_for_their_owner_only(ask, store, directory, file_of):
    question = ask()
    approve(store, question)
    store.consume(SESSION, question.confirmation_id)
    assert sorted(path.name for path in (directory / SESSION).iterdir()) == sorted(
        file_of(question, kind).name for kind in (ASKED, DECIDED, USED)
    )
    for path in directory.parent.rglob("*"):
        expected = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == expected
    assert stat.S_IMODE(directory.parent.stat().st_mode) == 0o700


BROKEN = [b"", b"\0" * 50, b"[]", b"{}", b'{"reason": "approved"}', b"\xff\xfe", b"[" * 100_000]


@pytest.mark.parametrize("data", BROKEN)
def test_a_broken_question_is_no_question_and_hides_no_other(ask, store, file_of, data):
    broken, kept = ask(), ask(call=msgspec.structs.replace(CALL, id="call_2"))
    file_of(broken).write_bytes(data)
    assert store.pending(SESSION) == [kept]
    with pytest.raises(ConfirmationNotFound):
        approve(store, broken)
    assert ask().confirmation_id != broken.confirmation_id


@pytest.mark.parametrize("data", BROKEN)
def test_a_broken_answer_is_a_no(ask, store, file_of, data):
    question = ask()
    file_of(question, DECIDED).write_bytes(data)
    assert store.pending(SESSION) == []
    assert store.decision_of(question).reason == "timeout"
    assert store.expire(question).reason == "timeout"
    assert not store.consume(SESSION, question.confirmation_id)
    assert store.find_decided(SESSION, MESSAGE, CALL) is None
    with pytest.raises(LATE):
        approve(store, question)


@pytest.mark.parametrize(
    "change",
    [
        {"arguments": {"path": "/"}},
        {"tool_name": "delete_everything"},
        {"session_id": OTHER_SESSION},
        {"created_at": "yesterday"},
        {"expires_at": "2099-01-01T00:00:00"},
    ],
)
def test_a_question_whose_file_was_changed_is_not_found(ask, store, file_of, change):
    question = ask()
    record = json.loads(file_of(question).read_text()) | change
    file_of(question).write_text(json.dumps(record))
    with pytest.raises(ConfirmationNotFound):
        approve(store, question)


@pytest.mark.parametrize(
    "change",
    [{"arguments": {"path": "/"}}, {"confirmation_id": f"conf_{'0' * 32}"}, {"decided_at": "now"}],
)
def test_an_answer_whose_file_was_changed_is_a_no(ask, store, file_of, change):
    question = ask()
    approve(store, question)
    record = json.loads(file_of(question, DECIDED).read_text()) | change
    file_of(question, DECIDED).write_text(json.dumps(record))
    assert store.decision_of(question).reason == "timeout"
    assert not store.consume(SESSION, question.confirmation_id)


def test_links_pipes_and_directories_are_no_records(ask, store, directory, tmp_path):
    question = ask()
    here = directory / SESSION
    outside = tmp_path / "outside"
    outside.write_text("{}")
    (here / f"conf_{'1' * 32}.{ASKED}").symlink_to(here / f"{question.confirmation_id}.{ASKED}")
    os.mkfifo(here / f"conf_{'2' * 32}.{ASKED}")
    (here / f"conf_{'3' * 32}.{ASKED}").mkdir()
    (here / "conf_x.asked").touch()
    (here / f"{question.confirmation_id}.asked.bak").touch()
    assert store.pending(SESSION) == [question]
    (here / f"{question.confirmation_id}.{DECIDED}").symlink_to(outside)
    with pytest.raises(LATE):
        approve(store, question)
    assert outside.read_text() == "{}"
    (directory / OTHER_SESSION).write_text("a file where a directory should be")
    assert store.pending(OTHER_SESSION) == []


def make_older(directory, clock, seconds):
    for path in directory.rglob("*"):
        os.utime(path, times=(clock().timestamp() - seconds,) * 2, follow_symlinks=False)


def test_old_questions_are_swept_and_open_or_usable_ones_are_not(ask, store, directory, clock):
    question = ask()
    make_older(directory, clock, 100)
    assert store.sweep(0) == 0
    approve(store, question)
    make_older(directory, clock, TIMEOUT - 1)
    assert store.sweep(0) == 0
    assert store.consume(SESSION, question.confirmation_id)
    make_older(directory, clock, 500)
    assert store.sweep(600) == 0
    assert store.sweep(400) == 1
    assert list(directory.iterdir()) == []
    assert not store.consume(SESSION, question.confirmation_id)
    with pytest.raises(ConfirmationNotFound):
        approve(store, question)


def test_sweeping_leaves_what_is_not_ours(ask, store, directory, clock, file_of):
    question = ask()
    (directory / SESSION / "notes.txt").touch()
    (directory / "README").touch()
    (directory / OTHER_SESSION).touch()
    file_of(question, USED).mkdir()
    make_older(directory, clock, 10_000)
    assert store.sweep(0) == 1
    assert sorted(path.name for path in (directory / SESSION).iterdir()) == sorted(
        [file_of(question, USED).name, "notes.txt"]
    )
    assert (directory / "README").exists()
    assert (directory / OTHER_SESSION).exists()


def test_sweeping_what_was_never_made_is_nothing(store):
    assert store.sweep(0) == 0
