"""Files of exports: JSON, lines, or zip files of which only what belongs to them is read."""

import io
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from sessions_app.errors import ValidationFailed
from transfer_app.bounded_zip import Limits
from transfer_app.entries import Entry, Problem
from transfer_app.export_file import ExportFile, is_zip

LIMITS = Limits(attachment_bytes=1 << 20)


def packed(*files: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in files:
            file.writestr(name, data)
    return out.getvalue()


def opened(*files: tuple[str, bytes], limits: Limits = LIMITS) -> ExportFile:
    return ExportFile(io.BytesIO(packed(*files)), "f.zip", limits)


def test_conversations_are_read_wherever_they_lie_in_their_order() -> None:
    file = opened(
        ("x/conversations-001.json", b'[{"n": 2}]'),
        ("x/conversations-000.json", b'[{"n": 1}]'),
        ("x/user.json", b'{"n": 3}'),
    )
    found = list(file.entries())
    assert [each.value for each in found if isinstance(each, Entry)] == [{"n": 1}, {"n": 2}]
    assert found[0].place == "x/conversations-000.json, entry 1"
    assert file.bytes_read == file.total_bytes == 20


def test_otherwise_every_json_file_is_read() -> None:
    file = opened(("a.json", b'{"n": 1}'), ("b.jsonl", b'{"n": 2}\n'), ("__MACOSX/a.json", b"x"))
    assert [each.value for each in file.entries() if isinstance(each, Entry)] == [
        {"n": 1},
        {"n": 2},
    ]


def test_files_are_found_by_name_and_by_the_id_before_it() -> None:
    file = opened(
        ("conversations.json", b"[]"),
        ("user-1/file-Abc-photo.png", b"1"),
        ("dalle/file_00ff-x.webp", b"2"),
        ("a/same.png", b"3"),
        ("b/same.png", b"4"),
    )
    assert b"".join(file.pieces("file-Abc", most=9)) == b"1"
    assert b"".join(file.pieces("file_00ff", most=9)) == b"2"
    assert file.name_of("file-Abc") == "file-Abc-photo.png"
    assert not file.holds("same.png")
    assert not file.holds("lost.png")
    assert file.holds("../../dalle/file_00ff-x.webp")


def test_what_holds_no_conversations_is_refused() -> None:
    with pytest.raises(ValidationFailed, match="no conversations"):
        opened(("a.png", b"1"))


def test_bombs_are_refused_before_they_are_unpacked() -> None:
    bomb = packed(("conversations.json", b"[" + b" " * 5_000_000))
    tight = Limits(attachment_bytes=1, ratio_from_bytes=1000)
    with pytest.raises(ValidationFailed, match="too tightly"):
        ExportFile(io.BytesIO(bomb), "f", tight)
    with pytest.raises(ValidationFailed, match="too large"):
        ExportFile(io.BytesIO(bomb), "f", Limits(attachment_bytes=1, total_bytes=1000))
    with pytest.raises(ValidationFailed, match="2 files; 1 are allowed"):
        opened(("a", b""), ("b", b""), limits=Limits(attachment_bytes=1, entries=1))


def test_a_member_that_is_broken_gives_what_came_before() -> None:
    data = bytearray(packed(("conversations.json", b'[{"n": 1}, {"n": 2}]')))
    at = data.index(b"PK\x01\x02") - 4
    data[at] ^= 0xFF  # within the compressed bytes
    found = list(ExportFile(io.BytesIO(bytes(data)), "f", LIMITS).entries())
    assert isinstance(found[-1], Problem)
    assert "broken" in found[-1].reason or "middle" in found[-1].reason


def test_zip_files_are_told_by_their_beginning() -> None:
    assert is_zip(io.BytesIO(packed(("a", b""))))
    assert not is_zip(io.BytesIO(b"[]"))
    assert not is_zip(io.BytesIO(b""))


def test_reading_takes_the_memory_of_an_entry_and_not_of_the_file(tmp_path: Path) -> None:
    entry = b'{"text": "' + b"x" * 100_000 + b'"}'
    path = tmp_path / "large.json"
    path.write_bytes(b"[" + b",".join([entry] * 100) + b"]")
    with path.open("rb") as file:
        export = ExportFile(file, "f", LIMITS)
        next(export.entries())
        tracemalloc.start()
        try:
            assert sum(1 for _ in ExportFile(file, "f", LIMITS).entries()) == 100
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert most < 3_000_000
