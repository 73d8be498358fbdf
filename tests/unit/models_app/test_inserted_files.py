"""Files that take the places of their stand-ins in a request's body."""

import base64
import json
import random

import pytest

from models_app.inserted_files import PIECE_BYTES, InsertedFiles

SIZES = (0, 1, 2, 3, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES + 2)


def encoded(files: InsertedFiles, *names: str) -> bytes:
    """Return a body as an SDK makes one."""
    urls = [f"data:x;base64,{base64.b64encode(files.stand_ins[name]).decode()}" for name in names]
    return json.dumps({"before": "Grüße/", "urls": urls, "after": "+"}, ensure_ascii=False).encode()


@pytest.mark.parametrize("size", SIZES)
def test_a_file_of_any_size_arrives_as_it_is(size: int) -> None:
    data = random.Random(size).randbytes(size)
    files = InsertedFiles({"a": data})
    sent = b"".join(files.body(encoded(files, "a")))

    assert json.loads(sent) == {
        "before": "Grüße/",
        "urls": [f"data:x;base64,{base64.b64encode(data).decode()}"],
        "after": "+",
    }


def test_files_take_their_own_places_also_twice_and_next_to_each_other() -> None:
    files = InsertedFiles({"a": b"first", "b": b"second"})
    names = ["b", "a", "b", "b"]
    sent = json.loads(b"".join(files.body(encoded(files, *names))))

    contents = {"a": b"first", "b": b"second"}
    assert [base64.b64decode(url.partition(",")[2]) for url in sent["urls"]] == [
        contents[name] for name in names
    ]
    together = b"".join(base64.b64encode(files.stand_ins[name]) for name in names)
    assert b"".join(files.body(together)) == b"".join(
        base64.b64encode(contents[name]) for name in names
    )


def test_a_body_says_its_length_and_can_be_sent_again() -> None:
    files = InsertedFiles({"a": bytes(2 * PIECE_BYTES + 1), "b": b"1234"})
    body = files.body(encoded(files, "a", "b"))
    first = b"".join(body)

    assert body.length == len(first)
    assert b"".join(body) == first


def test_no_piece_is_so_large_that_others_have_to_wait_for_it() -> None:
    files = InsertedFiles({"a": bytes(1 << 20)})
    assert max(map(len, files.body(encoded(files, "a")))) == PIECE_BYTES // 3 * 4


def test_what_was_said_by_chance_is_not_replaced() -> None:
    earlier, now = InsertedFiles({"a": b"first"}), InsertedFiles({"a": b"second"})
    body = encoded(earlier, "a")
    assert b"".join(now.body(body)) == body
