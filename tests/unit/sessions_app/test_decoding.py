"""Types are decoded by several threads from the first moment on."""

import subprocess
import sys

import msgspec
import pytest

from sessions_app.decoding import convert_to, decode_as, decoder_of

ROUNDS = 300
AT_ONCE = f"""
import sys, threading
from sessions_app.decoding import convert_to, decode_as
import msgspec

sys.setswitchinterval(1e-6)
value = {{"first": {{"x": 1}}, "second": {{"x": 1}}, "third": {{"x": 1}}}}
data = msgspec.json.encode(value)


def new_type():
    parts = [(name, msgspec.defstruct("Part", [("x", int)])) for name in value]
    return msgspec.defstruct("Whole", parts)


for _ in range({ROUNDS}):
    kind = new_type()
    start = threading.Barrier(3)

    def use(number):
        start.wait()
        if number == 0:
            decode_as(data, kind)
        elif number == 1:
            convert_to([value], list[kind])
        else:
            convert_to(value, kind)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


class Point(msgspec.Struct):
    """A type with a default."""

    x: int
    y: int = 0


def test_threads_that_decode_a_type_for_the_first_time_at_once_do_not_crash() -> None:
    run = subprocess.run(
        [sys.executable, "-c", AT_ONCE], capture_output=True, check=False, text=True
    )

    assert run.returncode == 0, run.stderr


def test_json_and_parsed_json_become_what_is_declared() -> None:
    assert decode_as(b'{"x":1}', Point) == Point(1)
    assert convert_to({"x": 1, "y": 2}, Point) == Point(1, 2)
    assert decode_as('[{"x":1}]', list[Point]) == [Point(1)]
    assert convert_to(None, Point | None) is None


def test_a_type_has_one_decoder() -> None:
    assert decoder_of(Point) is decoder_of(Point)


@pytest.mark.parametrize(
    "read", [lambda: decode_as(b'{"x":"1"}', Point), lambda: convert_to({}, Point)]
)
def test_another_type_is_refused(read) -> None:
    with pytest.raises(msgspec.ValidationError):
        read()


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_as(b"{", Point)
