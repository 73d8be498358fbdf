"""The ledger keeps a line for each model call, whatever else its files hold."""

import pytest

from usage_app.ledger import Ledger
from usage_app.record import LINE_BYTES, UsageRecord, line_of


def record(t="2026-11-22T10:00:00.000Z", **more):
    values = {"provider": "mine", "model": "m", "purpose": "chat", "status": "ok", "ms": 5, **more}
    return UsageRecord(v=1, t=t, **values)


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "usage")


def file_of(ledger, month="2026-11"):
    return ledger.directory / f"{month}.jsonl"


def test_a_ledger_that_nobody_wrote_is_empty(ledger):
    assert ledger.read_since({}) == ([], {})


def test_records_are_in_the_files_of_their_months(ledger):
    october, november = record("2026-10-31T23:59:59.999Z"), record("2026-11-01T00:00:00.000Z")
    ledger.append([november, october])

    assert ledger.months() == ["2026-10", "2026-11"]
    assert ledger.read_since({})[0] == [october, november]
    assert [each for each, _ in ledger.follow_month("2026-11", 0)] == [november]
    assert [each for each, _ in ledger.follow_month("2026-10", 0)] == [october]


def test_torn_and_foreign_lines_are_left_out(ledger):
    ledger.append([record(model="a")])
    with file_of(ledger).open("ab") as file:
        file.write(b"not json\n\xff\xfe\n[]\n{}\n\n" + b"x" * 3 * LINE_BYTES + b"\n")
        file.write(line_of(record()).replace(b'"v":1', b'"v":2'))
        file.write(line_of(record(model="torn"))[:30])
    ledger.append([record(model="b")])

    assert [each.model for each in ledger.read_since({})[0]] == ["a", "b"]


def test_fields_that_are_not_known_are_ignored(ledger):
    ledger.append([record()])
    with file_of(ledger).open("ab") as file:
        file.write(line_of(record(model="b")).replace(b"}\n", b',"owner":"alice"}\n'))

    assert [each.model for each in ledger.read_since({})[0]] == ["m", "b"]


def test_a_reader_goes_on_where_it_was(ledger):
    ledger.append([record(model="a")])
    first, place = ledger.read_since({})
    ledger.append([record(model="b")])
    second, place = ledger.read_since(place)
    third, _ = ledger.read_since(place)

    assert [[each.model for each in part] for part in (first, second, third)] == [["a"], ["b"], []]


def test_a_reader_waits_for_the_rest_of_a_line(ledger):
    ledger.append([record(model="a")])
    line = line_of(record(model="b"))
    with file_of(ledger).open("ab") as file:
        file.write(line[:20])
    before, place = ledger.read_since({})
    with file_of(ledger).open("ab") as file:
        file.write(line[20:])
    after, _ = ledger.read_since(place)

    assert [each.model for each in before] == ["a"]
    assert [each.model for each in after] == ["b"]


def test_a_reader_may_begin_with_a_month(ledger):
    ledger.append([record("2026-10-01T00:00:00.000Z"), record("2026-11-01T00:00:00.000Z")])

    assert len(ledger.read_since({"2026-11": 0})[0]) == 1


def test_a_reader_gets_lines_that_come_late_for_the_month_before(ledger):
    ledger.append([record("2026-11-30T23:59:59.000Z"), record("2026-12-01T00:00:00.000Z")])
    _, place = ledger.read_since({"2026-11": 0})
    ledger.append([record("2026-11-30T23:59:59.999Z", model="late")])

    assert [each.model for each in ledger.read_since(place)[0]] == ["late"]


def test_a_reader_takes_no_more_than_it_wants_at_once(ledger):
    ledger.append([record(model=f"m{number}") for number in range(5)])
    first, place = ledger.read_since({}, most=3)
    second, _ = ledger.read_since(place, most=3)

    assert [each.model for each in first + second] == ["m0", "m1", "m2", "m3", "m4"]
    assert len(first) == 3


def test_long_files_are_read_in_pieces(ledger):
    records = [record(model=f"m{number}" + "x" * 200) for number in range(2000)]
    ledger.append(records)

    assert ledger.read_since({})[0] == records


def test_the_longest_line_is_written_and_a_longer_one_is_warned_of(ledger, caplog):
    room = LINE_BYTES - len(line_of(record(model="")))
    ledger.append([record(model="x" * room), record(model="y" * (room + 1), call_id="c1")])

    assert [each.model for each in ledger.read_since({})[0]] == ["x" * room]
    [warning] = caplog.records
    assert (warning.levelname, warning.call_id) == ("WARNING", "c1")
