"""The same calls come of their pieces, however they are cut, numbered and named."""

import json

from hypothesis import given
from hypothesis import strategies as st

from models_app.vendors.call_pieces import CallPiece, CallPieces

made_calls = st.lists(
    st.tuples(
        st.sampled_from(["now", "weather", "now_there"]),
        st.dictionaries(
            st.sampled_from('ab"{}\\'), st.text('ab"{}[]\\ \n', max_size=8), min_size=1
        ),
    ),
    min_size=1,
    max_size=4,
)


def cut(draw, text):
    pieces = []
    while text:
        size = draw(st.integers(1, len(text)))
        pieces.append(text[:size])
        text = text[size:]
    return pieces


@given(
    st.data(),
    made_calls,
    st.sampled_from(["right", "none", "growing", "zero", "restarting"]),
    st.sampled_from(["first", "each", "another"]),
    st.sampled_from(["first", "each"]),
)
def test_pieces_come_together_whatever_index_id_and_name_they_have(
    data, calls, indexed, identified, named
):
    if (identified, named) == ("another", "each"):
        named = "first"  # nothing would tell a piece of a call from another call
    pieces, counted = [], 0
    for number, (name, arguments) in enumerate(calls):
        texts = cut(data.draw, json.dumps(arguments))
        if data.draw(st.booleans()) and (indexed, named) != ("growing", "each"):
            texts = ["", *texts]
        for at, text in enumerate(texts):
            index = {"right": number, "none": None, "growing": counted, "zero": 0}.get(indexed, at)
            call_id = {"first": "" if at else f"c{number}", "each": f"c{number}"}.get(
                identified, f"c{number}-{at}" if at else f"c{number}"
            )
            told = name if not at or named == "each" else ""
            pieces.append(CallPiece(index=index, id=call_id, name=told, arguments=text))
            counted += 1

    reader = CallPieces()
    read: dict[int, dict[str, str]] = {}
    for piece in pieces:
        placed = reader.place(piece)
        call = read.setdefault(placed["index"], {"id": "", "name": "", "arguments": ""})
        call["id"] += placed["id"] or ""
        call["name"] += placed["function"]["name"] or ""
        call["arguments"] += placed["function"]["arguments"]

    assert [(it["id"], it["name"], json.loads(it["arguments"])) for it in read.values()] == [
        (f"c{number}", *call) for number, call in enumerate(calls)
    ]
    assert reader.nameless() == []


def test_calls_of_one_id_are_told_apart_by_their_numbers():
    reader = CallPieces()
    placed = [
        reader.place(CallPiece(index=index, id="same", name=name, arguments=text))["index"]
        for index, name, text in [(0, "f", ""), (1, "f", ""), (0, "", '{"a"'), (1, "", '{"b"')]
    ]
    assert placed == [0, 1, 0, 1]
