"""A report counts everything, and tells the first of it one by one."""

from sessions_app.messages import Attachment
from transfer_app.archive_import import ImportedArchive
from transfer_app.entries import Problem
from transfer_app.report import MOST_TOLD, SHOWN, ImportSummary

CAT = Attachment(id="sha256:9f", name="cat.png", media_type="image/png", size=3)


def test_scripts_read_what_became_of_each_session() -> None:
    told = ImportSummary()
    told.leave_out(["__MACOSX/x"])
    told.add(
        ImportedArchive(
            session_id="d" * 10, outcome="imported", messages=1, attachments=1, missing=(CAT,)
        )
    )
    told.add(Problem(place="a.json, entry 1", reason="odd"))
    told.attachments_added += 1
    document = told.as_json()
    assert document["sessions"] == [
        {
            "session_id": "d" * 10,
            "outcome": "imported",
            "messages": 1,
            "attachments": 1,
            "missing": [{"id": "sha256:9f", "name": "cat.png"}],
        }
    ]
    assert document["problems"] == [{"place": "a.json, entry 1", "reason": "odd"}]
    assert (document["imported"], document["broken"], document["empty"]) == (1, 1, 0)
    assert (document["attachments_added"], document["left_out"]) == (1, ["__MACOSX/x"])


def test_a_report_of_many_stays_small() -> None:
    told = ImportSummary()
    for number in range(MOST_TOLD + 5):
        told.add(ImportedArchive(session_id=f"{number:010}", outcome="same", messages=1))
        told.add(Problem(place=str(number), reason="odd"))
    told.leave_out(["x"] * (MOST_TOLD + 5))
    document = told.as_json()
    assert (document["same"], document["broken"]) == (MOST_TOLD + 5, MOST_TOLD + 5)
    assert {len(document[key]) for key in ("sessions", "problems", "left_out")} == {MOST_TOLD}


def summary() -> ImportSummary:
    summary = ImportSummary()
    summary.leave_out(["__MACOSX/x"])
    summary.add(ImportedArchive(session_id="a" * 10, outcome="imported", messages=2, attachments=1))
    summary.add(ImportedArchive(session_id="b" * 10, outcome="same", messages=1))
    return summary


def test_people_read_a_line_for_each_session() -> None:
    report = summary()
    assert list(report.lines()) == [
        "imported      aaaaaaaaaa: 2 messages, 1 attachment",
        "there already bbbbbbbbbb: 1 message",
        "not of a session, left out: __MACOSX/x",
        "1 session imported; 1 there already",
    ]
    assert report.fault() is None


def test_what_stays_and_what_is_missing_is_a_fault() -> None:
    told = summary()
    told.add(ImportedArchive(session_id="c" * 10, outcome="different", messages=3))
    told.add(
        ImportedArchive(
            session_id="d" * 10, outcome="imported", messages=1, attachments=1, missing=(CAT,)
        )
    )
    assert "left          cccccccccc: one with this id is here that differs, and stays" in list(
        told.lines()
    )
    assert told.fault() == (
        "1 session left: nothing is overwritten. The file lacks cat.png (sha256:9f)."
    )


def test_what_is_broken_is_named_with_its_place_and_what_is_empty_counted() -> None:
    told = ImportSummary(dry_run=True)
    told.add(Problem(place="x.json, entry 3", reason="it has no uuid"))
    told.add(Problem(place="x.json, entry 4", reason="it has no messages", is_empty=True))
    assert list(told.lines()) == [
        "not taken in  x.json, entry 3: it has no uuid",
        "0 sessions would be imported; 1 without messages",
    ]
    assert told.fault() == "1 entry was not taken in: x.json, entry 3: it has no uuid."
    assert told.broken_off() == "Nothing was taken in."


def test_many_sessions_are_counted() -> None:
    told = ImportSummary()
    for number in range(SHOWN + 2):
        told.add(
            ImportedArchive(
                session_id=f"{number:010}",
                outcome="imported",
                messages=1,
                left_out=["a.png"],
                is_branch=number == 1,
            )
        )
        told.add(Problem(place=str(number), reason="odd"))
    lines = list(told.lines())
    assert lines[SHOWN] == "... and 2 more sessions"
    assert lines[2 * SHOWN + 1] == "... and 2 more that were not taken in"
    assert lines[-2].startswith("52 images and files not in the export")
    assert lines[-1] == "52 sessions imported, 1 of them other branches"
