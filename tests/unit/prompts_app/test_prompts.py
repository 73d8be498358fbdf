import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts_app.prompts import (
    PREVIEW_LENGTH,
    Prompt,
    PromptSummary,
    is_filename,
    validate_content,
    validate_filename,
)
from sessions_app.errors import ValidationFailed
from sessions_app.text_rules import MAX_PROMPT_LENGTH

HOSTILE_NAMES = [
    "",
    ".md",
    ".hidden.md",
    "..",
    "../secret.md",
    "..\\secret.md",
    "folder/prompt.md",
    "/etc/passwd.md",
    "prompt.md\n",
    "prompt\n.md",
    "prompt\x00.md",
    "prompt.md\x00.txt",
    "prompt.exe",
    "prompt",
    "prompt.md.bak",
    "PROMPT.MD",
    "-rf.md",
    "_private.md",
    "with space.md",
    "prömpt.md",
    "１.md",
    "%2e%2e.md",
    "a" * 98 + ".md",
]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_name_that_no_prompt_may_have_is_refused_by_field(name: str) -> None:
    with pytest.raises(ValidationFailed) as refused:
        validate_filename(name)
    assert refused.value.details["field"] == "filename"


@pytest.mark.parametrize("name", ["a.md", "0.txt", "using_agents.md", "v1.2-final.md", "a..md"])
def test_an_ordinary_name_is_accepted(name: str) -> None:
    validate_filename(name)


def test_the_longest_name_has_a_hundred_characters() -> None:
    assert is_filename("a" * 97 + ".md")
    assert not is_filename("a" * 98 + ".md")


@given(st.text())
def test_an_accepted_name_can_never_leave_its_directory(name: str) -> None:
    if is_filename(name):
        assert name.isascii()
        assert not set(name) & set("/\\\x00\n")
        assert not name.startswith(".")


@pytest.mark.parametrize("content", ["", " ", "\n\t "])
def test_a_blank_text_is_refused(content: str) -> None:
    with pytest.raises(ValidationFailed) as refused:
        validate_content(content)
    assert refused.value.details["field"] == "content"


def test_a_text_has_fewer_than_ten_thousand_characters() -> None:
    validate_content("é" * MAX_PROMPT_LENGTH)
    with pytest.raises(ValidationFailed, match="10,000"):
        validate_content("x" * 10_000)


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(ValidationFailed):
        validate_content("broken \ud83d")


def test_a_summary_counts_words_and_shows_short_text_whole() -> None:
    summary = PromptSummary.of(Prompt(filename="a.md", content="# Title\n\nBe   kind.\n"))
    assert summary == PromptSummary(filename="a.md", preview="# Title Be kind.", word_count=4)


def test_a_preview_of_long_text_is_cut_with_an_ellipsis() -> None:
    summary = PromptSummary.of(Prompt(filename="a.md", content="word " * 500))
    assert summary.word_count == 500
    assert len(summary.preview) == PREVIEW_LENGTH
    assert summary.preview.endswith("...")


@given(st.text())
def test_a_preview_is_one_line_of_at_most_a_hundred_characters(content: str) -> None:
    preview = PromptSummary.of(Prompt(filename="a.md", content=content)).preview
    assert len(preview) <= PREVIEW_LENGTH
    assert len(preview.splitlines()) <= 1
