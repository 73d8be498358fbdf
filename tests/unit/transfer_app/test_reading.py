"""Archives are strangers' files: what is not right is refused as a whole, with a sentence."""

import io
import random
import zipfile
from pathlib import Path

import pytest

from sessions_app.errors import ValidationFailed
from sessions_app.format.codec import encode
from sessions_app.session import Session
from tests.unit.sessions_app.attachments.images import png
from tests.unit.transfer_app.stores import (
    MemoryStore,
    archive_of,
    manager_in,
    question,
    reference,
    session_of,
)
from transfer_app.bounded_zip import Limits
from transfer_app.layout import attachment_name, session_name
from transfer_app.reading import SessionArchive

CAT = png()
CAT_ID = reference(CAT).id
LIMITS = Limits(attachment_bytes=1 << 20)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return session_of(manager_in(tmp_path), question(reference(CAT)))


@pytest.fixture
def files(session: Session) -> dict[str, bytes]:
    return {session_name(session.session_id): encode(session), attachment_name(CAT_ID): CAT}


def packed(files: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as file:
        for name, data in files.items():
            file.writestr(name, data)
    return out.getvalue()


def read(data: bytes, limits: Limits = LIMITS) -> SessionArchive:
    return SessionArchive(io.BytesIO(data), limits)


def test_our_own_archives_are_read(session: Session) -> None:
    store = MemoryStore()
    store.keep(CAT)
    archive = read(archive_of(session, store))
    assert archive.session_ids == (session.session_id,)
    assert archive.session(session.session_id) == session
    assert b"".join(archive.pieces(CAT_ID)) == CAT
    assert archive.left_out == ()


def test_an_archive_that_was_packed_again_by_another_program_is_read(
    session: Session, files: dict[str, bytes]
) -> None:
    data = packed({"chat_sessions/": b"", **files, "__MACOSX/x": b"x", "~~~~~~": b"x"})
    archive = read(data.replace(b"~~~~~~", b"\0~~~~~"))  # a name that is cut to nothing
    assert archive.session(session.session_id) == session
    assert archive.left_out == ("__MACOSX/x", "")


def test_no_entry_becomes_a_path_and_no_file_comes_without_its_message(
    files: dict[str, bytes],
) -> None:
    dog = png(5, 5)
    strange = {
        "../../evil": b"x",
        "/etc/cron.d/evil": b"x",
        "chat_sessions/../../0123456789.json": b"{}",
        attachment_name(reference(dog).id): dog,
    }
    archive = read(packed({**strange, **files}))
    assert set(archive.left_out) == set(strange)
    assert archive.attachment_ids == {CAT_ID}


def refused(data: bytes, limits: Limits = LIMITS) -> str:
    with pytest.raises(ValidationFailed) as caught:
        read(data, limits)
    return caught.value.message


def test_what_is_no_zip_file_or_holds_no_session_is_refused(files: dict[str, bytes]) -> None:
    assert "not a zip file" in refused(b"")
    assert "not a zip file" in refused(b'{"metadata": {}}')
    assert "no session" in refused(packed({attachment_name(CAT_ID): CAT}))
    assert "no session" in refused(packed({f"backup/{name}": data for name, data in files.items()}))


def test_an_attachment_that_is_not_what_it_is_called_is_refused(files: dict[str, bytes]) -> None:
    files[attachment_name(CAT_ID)] = png(9, 9)
    assert "other bytes" in refused(packed(files))


def test_a_session_that_can_not_be_read_is_refused(
    session: Session, files: dict[str, bytes]
) -> None:
    files[session_name(session.session_id)] = b'{"metadata": 3}'
    assert f"Session {session.session_id} of the file can't be read" in refused(packed(files))


def test_two_files_of_one_name_are_refused(files: dict[str, bytes]) -> None:
    out = io.BytesIO(packed(files))
    with (
        pytest.warns(UserWarning, match="Duplicate name"),
        zipfile.ZipFile(out, "a") as file,
    ):
        file.writestr(next(iter(files)), b"{}")
    assert "two files of one name" in refused(out.getvalue())


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_rare_ways_of_packing_are_refused(files: dict[str, bytes], compression: int) -> None:
    assert "packed in a way" in refused(packed(files, compression))


def test_limits_hold_for_count_size_total_and_contents(files: dict[str, bytes]) -> None:
    data = packed({**files, **{f"more/{n}": b"x" for n in range(9)}})

    def limits(**changes: int) -> Limits:
        return Limits(**{"attachment_bytes": 1 << 20, **changes})

    assert read(data, limits(entries=11, total_bytes=100_000)).session_ids
    assert "holds 11 files; 10 are allowed" in refused(data, limits(entries=10))
    assert "too large: unpacked" in refused(data, limits(total_bytes=100))
    assert f"{len(CAT):,} bytes; 9 are allowed" in refused(data, limits(attachment_bytes=9))
    assert "bytes; 99 are allowed" in refused(data, limits(session_bytes=99))
    assert "table of contents" in refused(data, limits(directory_bytes=300))


def test_a_bomb_is_refused_before_it_is_unpacked(files: dict[str, bytes]) -> None:
    bomb = {**files, "bomb": bytes(4 << 20)}
    assert "too tightly" in refused(packed(bomb), Limits(attachment_bytes=9, ratio_from_bytes=9))


def test_files_that_share_their_bytes_are_refused(files: dict[str, bytes]) -> None:
    """Overlapping entries unpack the same bytes again and again."""
    data = packed({"a" * 90: random.Random(1).randbytes(5000), **files}, zipfile.ZIP_STORED)
    at = data.index(b"PK\1\2")
    length = data.index(b"PK\1\2", at + 4) - at
    end = data.index(b"PK\5\6")
    entry = data[at : at + length]
    copies = [entry.replace(b"a" * 90, b"%090d" % n) for n in range(20)]
    table = b"".join([*copies, data[at:end]])
    count = (20 + 3).to_bytes(2, "little")
    tail = data[end : end + 8] + count * 2 + len(table).to_bytes(4, "little") + data[end + 16 :]
    assert "overlap" in refused(data[:at] + table + tail)


def test_whatever_bit_is_wrong_nothing_but_a_refusal_comes_of_it(files: dict[str, bytes]) -> None:
    whole = packed(files)
    chance = random.Random(18)
    for _ in range(1500):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        for cut in (len(data), chance.randrange(len(data))):
            try:
                archive = read(bytes(data[:cut]))
            except ValidationFailed:
                continue
            for attachment_id in archive.attachment_ids:
                assert b"".join(archive.pieces(attachment_id)) == CAT


def test_an_archive_of_a_newer_server_is_refused_before_anything_is_taken(
    session: Session, files: dict[str, bytes]
) -> None:
    name = session_name(session.session_id)
    files[name] = files[name].replace(b'"format_version": "1.3"', b'"format_version": "2.0"')
    with pytest.raises(ValidationFailed, match="newer than this server's"):
        read(packed(files))
