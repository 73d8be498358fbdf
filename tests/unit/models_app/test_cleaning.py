"""The stream cleaner: the same result whatever the chunk borders, and nothing slips through."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models_app.cleaning import END_MARKER, StreamCleaner

TAG = re.compile(r"</?(?:think(?:ing)?|thought|reasoning)>|\[/?think\]", re.IGNORECASE)
CONTROL = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{END_MARKER}]")
FRAGMENTS = st.sampled_from(
    ["<", "</", "<th", "think", "ing", ">", "k>", "<think>", "</think>", "<Thinking>",
     "</thinking>", "\x00", "\r\n", "\x85", END_MARKER, " ", "\n", "\t", "a", "é", "<b>", "漢",
     "[", "[/", "[th", "[THINK]", "[/THINK]", "ink]", "<reasoning>", "</thought>",
     "😀", "\ud83d", "\ude00", "\ud83d\ude00"]
)  # fmt: skip
HOSTILE = st.lists(FRAGMENTS | st.text(max_size=3), max_size=30).map("".join)


def clean(*chunks: str) -> tuple[str, str]:
    cleaner = StreamCleaner()
    pieces = [*map(cleaner.feed_text, chunks), cleaner.finish()]
    return "".join(text for text, _ in pieces), "".join(thinking for _, thinking in pieces)


@st.composite
def cut_texts(draw: st.DrawFn) -> tuple[str, list[str]]:
    text = draw(HOSTILE)
    borders = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return text, [text[a:b] for a, b in zip([0, *borders], [*borders, len(text)], strict=True)]


@given(cut_texts())
def test_any_split_into_chunks_gives_the_result_of_the_whole(case: tuple[str, list[str]]) -> None:
    text, chunks = case
    assert clean(*chunks) == clean(text) == clean(*text)


@given(cut_texts())
def test_no_tag_and_no_control_character_is_left_even_in_the_joined_output(
    case: tuple[str, list[str]],
) -> None:
    for output in clean(*case[1]):
        assert not TAG.search(output)
        assert not CONTROL.search(output)
        output.encode()


@given(HOSTILE)
def test_cleaning_clean_text_changes_nothing(text: str) -> None:
    answer, thinking = clean(text)
    assert clean(answer) == (answer, "")
    assert clean(thinking) == (thinking, "")


@given(st.text().filter(lambda text: not CONTROL.search(text) and not TAG.search(text)))
def test_text_without_anything_to_clean_passes_unchanged(text: str) -> None:
    assert clean(text) == (text, "")
    assert clean(*text) == (text, "")


@given(cut_texts())
def test_text_that_passes_is_what_feeding_it_returns(case: tuple[str, list[str]]) -> None:
    cleaner = StreamCleaner()
    for chunk in case[1]:
        passes = cleaner.passes(chunk)
        fed = cleaner.feed_text(chunk)
        assert not passes or fed == (chunk, "")


@given(st.lists(st.tuples(st.booleans(), HOSTILE), max_size=8))
def test_the_providers_own_thinking_is_as_clean_and_never_turns_into_text(
    feeds: list[tuple[bool, str]],
) -> None:
    cleaner = StreamCleaner()
    answer, thinking = "", ""
    for is_thinking, chunk in feeds:
        if is_thinking:
            thinking += cleaner.feed_thinking(chunk)
        else:
            text, thought = cleaner.feed_text(chunk)
            answer, thinking = answer + text, thinking + thought
    text, thought = cleaner.finish()
    answer, thinking = answer + text, thinking + thought
    for output in (answer, thinking):
        assert not TAG.search(output)
        assert not CONTROL.search(output)
        output.encode()
    assert answer == clean(*(chunk for is_thinking, chunk in feeds if not is_thinking))[0]


@pytest.mark.parametrize(
    ("raw", "text", "thinking"),
    [
        ("<think>why</think>because", "because", "why"),
        ("<thinking>why</thinking>because", "because", "why"),
        ("<THINK>why</Think>because", "because", "why"),
        ("<thought>why</thought>because", "because", "why"),
        ("<reasoning>why</reasoning>because", "because", "why"),
        ("[THINK]why[/THINK]because", "because", "why"),
        ("a[0] [t] [thinker] <result> [/th", "a[0] [t] [thinker] <result> [/th", ""),
        ("[TH<think>hidden</think>INK]joined", "", "hiddenjoined"),
        ("one<think>two</think>three<think>four</think>", "onethree", "twofour"),
        ("<think>never closed", "", "never closed"),
        ("no block</think> was open", "no block was open", ""),
        ("<think>a<think>b</think>c</think>d", "cd", "ab"),
        ("a < b <i>and</i> <thinker> </thin", "a < b <i>and</i> <thinker> </thin", ""),
        ("<th\x00ink>hidden</th␄ink>seen", "seen", "hidden"),
        ("<th</think>ink>joined", "", "joined"),
        ("line\r\nnext\ttab\x85\x9b␄", "line\nnext\ttab", ""),
        ("answer<think", "answer<think", ""),
        ("\ud83d\ude00 \ude00\ud83d", "😀 \ufffd\ufffd", ""),
        ("<think>\ud83d\ude00</think>\ud83d", "\ufffd", "😀"),
        ("\ud83d\x00\ude00", "\ufffd\ufffd", ""),
        ("<thi\ud83d", "<thi\ufffd", ""),
        ("", "", ""),
    ],
)
def test_blocks_markers_and_control_characters_go_where_they_belong(
    raw: str, text: str, thinking: str
) -> None:
    assert clean(raw) == (text, thinking)
    assert clean(*raw) == (text, thinking)


def test_clean_text_is_returned_as_the_same_object_and_at_once() -> None:
    chunk = "nothing < special here\n"
    cleaner = StreamCleaner()
    assert cleaner.feed_text(chunk)[0] is chunk
    assert cleaner.feed_thinking(chunk) is chunk


def test_only_what_may_become_a_tag_is_held_back() -> None:
    cleaner = StreamCleaner()
    assert cleaner.feed_text("see <thi") == ("see ", "")
    assert cleaner.feed_text("s>") == ("<this>", "")


def test_half_a_character_is_held_until_the_other_half_comes() -> None:
    cleaner = StreamCleaner()
    assert cleaner.feed_text("see \ud83d") == ("see ", "")
    assert cleaner.feed_thinking("well \ud83d") == "well "
    assert cleaner.feed_text("\ude00!") == ("😀!", "")
    assert cleaner.feed_thinking(" then") == "\ufffd then"
    assert cleaner.feed_thinking("\ud83d") == ""
    assert cleaner.finish() == ("", "\ufffd")


def test_a_cleaner_is_as_new_after_finish() -> None:
    cleaner = StreamCleaner()
    cleaner.feed_text("<think>open<th")
    assert cleaner.finish() == ("", "<th")
    assert cleaner.finish() == ("", "")
    assert cleaner.feed_text("text") == ("text", "")


def test_a_million_brackets_take_linear_time() -> None:
    assert clean("<" * 1_000_000) == ("<" * 1_000_000, "")
