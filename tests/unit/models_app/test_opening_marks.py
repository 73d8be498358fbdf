"""Reasoning that is marked at the beginning of an answer, and quotations of such marks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models_app.cleaning import StreamCleaner

ANALYSIS, FINAL = "<|channel|>analysis<|message|>", "<|channel|>final<|message|>"

ANSWERS = [
    ("<seed:think>Hm.</seed:think>Yes.", "Yes.", "Hm."),
    ("\n <seed:think>Hm.</seed:think>\nYes.", "\n \nYes.", "Hm."),
    ("<|channel>thought\nHm.<channel|>Yes.", "Yes.", "Hm."),
    ("<|channel>thought\n<channel|>Yes.", "Yes.", ""),
    (f"{ANALYSIS}Hm.<|end|><|start|>assistant{FINAL}Yes.<|return|>", "Yes.", "Hm."),
    (f"<|start|>assistant{ANALYSIS}Hm.<|end|>{FINAL}Yes.", "Yes.", "Hm."),
    (f"{ANALYSIS}A<|end|><|start|>assistant{ANALYSIS}B<|end|>{FINAL}Yes.", "Yes.", "AB"),
    (f"{FINAL}Yes.<|return|>", "Yes.", ""),
    ("<seed:think>I go on", "", "I go on"),
    ("<seed:think>a<think>b</think>c</seed:think>Yes.", "Yes.", "abc"),
    ("<seed:think>Hm.</seed:think><think>And</think>Yes.", "Yes.", "Hm.And"),
    ("<thought>Hm.</thought>Yes. <think>Or</think>no.", "Yes. no.", "Hm.Or"),
    ("[THINK]Hm.[/THINK]Yes.", "Yes.", "Hm."),
    ("<reasoning>Hm.</reasoning>Yes.", "Yes.", "Hm."),
]
QUOTATIONS = [
    "Seed writes <seed:think>Hm.</seed:think> first.",
    f"gpt-oss writes {ANALYSIS}Hm.<|end|> and <|return|>.",
    "Gemma writes <|channel>thought\nHm.<channel|>.",
    "<seed:thin",
    "<|channel|>",
    "<|chan and so on",
    "<seed>of doubt</seed>",
    "  <",
    "x<|return|>",
    "</seed:think>Yes.",
]


def cleaned(pieces):
    cleaner = StreamCleaner()
    text = thinking = ""
    for piece in pieces:
        if cleaner.passes(piece):
            text += piece
            continue
        said, thought = cleaner.feed_text(piece)
        text, thinking = text + said, thinking + thought
    said, thought = cleaner.finish()
    return text + said, thinking + thought


@pytest.mark.parametrize(("answer", "text", "thinking"), ANSWERS)
def test_reasoning_at_the_beginning_is_no_text_however_it_is_cut(answer, text, thinking):
    assert cleaned([answer]) == (text, thinking)
    assert cleaned(answer) == (text, thinking)


@pytest.mark.parametrize("answer", QUOTATIONS)
def test_further_on_and_unfinished_marks_are_text(answer):
    assert cleaned([answer]) == (answer, "")
    assert cleaned(answer) == (answer, "")


MARKS = [ANALYSIS, FINAL, "<|end|>", "<|return|>", "<seed:think>", "</seed:think>", "<think>"]


@given(st.lists(st.sampled_from([*MARKS, "a", " ", "<|", "<", "\n"]), max_size=12), st.data())
def test_what_comes_out_does_not_depend_on_the_cuts(parts, data):
    whole = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert cleaned(pieces) == cleaned([whole])


def test_after_the_first_word_text_passes_as_it_is():
    cleaner = StreamCleaner()
    assert not cleaner.passes("Hello")
    assert cleaner.feed_text("Hello") == ("Hello", "")
    assert cleaner.passes(" world")


def test_an_answer_that_goes_on_after_its_reasoning_was_cut_begins_anew():
    cleaner = StreamCleaner()
    cleaner.feed_text("<seed:think>Well")
    cleaner.finish()
    assert cleaner.feed_text("<seed:think>Well, yes.</seed:think>Yes.") == ("Yes.", "Well, yes.")
    cleaner.finish()
    assert cleaner.feed_text("<seed:think>") == ("<seed:think>", "")
