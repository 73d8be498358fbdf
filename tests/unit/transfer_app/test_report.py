"""A report counts everything, and tells the first of it one by one."""

from sessions_app.messages import Attachment
from transfer_app.archive_import import ImportedArchive
from transfer_app.entries import Problem
from transfer_app.report import MOST_TOLD, ImportSummary

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
