"""An import says what came in, what was there, and what is missing."""

from mochi_project.management.import_report import ImportReport
from sessions_app.messages import Attachment
from sessions_app.transfer.taking import Taken

CAT = Attachment(id="sha256:9f", name="cat.png", media_type="image/png", size=3)


def report() -> ImportReport:
    report = ImportReport(["__MACOSX/x"])
    report.add(Taken(session_id="a" * 10, outcome="imported", messages=2, attachments=1))
    report.add(Taken(session_id="b" * 10, outcome="same", messages=1))
    return report


def test_people_read_a_line_for_each_session() -> None:
    assert list(report().lines()) == [
        "imported      aaaaaaaaaa: 2 messages, 1 attachment",
        "there already bbbbbbbbbb: 1 message",
        "not of a session, left out: __MACOSX/x",
    ]
    assert report().fault() is None


def test_what_stays_and_what_is_missing_is_a_fault() -> None:
    told = report()
    told.add(Taken(session_id="c" * 10, outcome="different", messages=3))
    told.add(
        Taken(session_id="d" * 10, outcome="imported", messages=1, attachments=1, missing=(CAT,))
    )
    assert "left          cccccccccc: one with this id is here that differs, and stays" in list(
        told.lines()
    )
    assert told.fault() == (
        "1 session left: nothing is overwritten. The file lacks cat.png (sha256:9f)."
    )


def test_scripts_read_the_same() -> None:
    told = report()
    told.add(
        Taken(session_id="d" * 10, outcome="imported", messages=1, attachments=1, missing=(CAT,))
    )
    document = told.as_json(attachments_added=1)
    assert [each["outcome"] for each in document["sessions"]] == ["imported", "same", "imported"]
    assert document["sessions"][2]["missing"] == [{"id": "sha256:9f", "name": "cat.png"}]
    assert (document["attachments_added"], document["left_out"]) == (1, ["__MACOSX/x"])
