"""A conversation as Markdown names what is attached."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.export import LONGEST_FENCE, fenced, to_markdown
from sessions_app.messages import Attachment, ToolMessage, UserMessage
from sessions_app.session import append_messages, make_session

NOW = "2026-11-22T10:00:00.000000+00:00"
CAT = Attachment(
    id=f"sha256:{'ca' * 32}",
    name="[my](x) *cat*.png",
    media_type="image/png",
    size=51234,
    width=800,
    height=600,
)
NOTES = msgspec.structs.replace(CAT, name="notes.txt", media_type="text/plain", width=None)


def test_attachments_of_messages_and_results_are_named_and_write_no_markup() -> None:
    session = append_messages(
        make_session("a1b2c3d4e5", "m", now=NOW),
        UserMessage(content="Look!", message_id="1", timestamp=NOW, attachments=(CAT,)),
        UserMessage(content="", message_id="2", timestamp=NOW, attachments=(NOTES,)),
        ToolMessage(
            content="4", message_id="3", timestamp=NOW, tool_name="add", attachments=(NOTES,)
        ),
        now=NOW,
    )
    cat = r"_Attached: \[my\](x) \*cat\*.png (image/png, 51,234 bytes, 800 x 600)_"
    notes = "_Attached: notes.txt (text/plain, 51,234 bytes)_"
    text = to_markdown(session)
    assert f"Look!\n\n{cat}\n" in text
    assert text.count(notes) == 2


@given(st.text(alphabet="`~a \n", max_size=30))
def test_a_fence_is_one_longer_than_any_in_the_text(text: str) -> None:
    fence = "```"
    while fence in text:
        fence += "`"
    assert fenced(text, "py") == f"{fence}py\n{text}\n{fence}"


@pytest.mark.timeout(30)  # took the square of the length: a day for this one
def test_a_file_of_backticks_is_put_in_a_block_once() -> None:
    text = "`" * 20_000_000
    fence = "`" * LONGEST_FENCE
    assert fenced(text) == f"{fence}\n    {text}\n{fence}"


@pytest.mark.parametrize("before", ["", "\n", "a\n", "a\r"])
@pytest.mark.parametrize("line", ["{}", "{} \t", "{}```", "   {}"])
@pytest.mark.parametrize("after", ["", "\n", "\r\nb"])
def test_a_line_that_would_end_the_longest_block_is_indented(
    before: str, line: str, after: str
) -> None:
    fence = "`" * LONGEST_FENCE
    shown = line.format(f"    {fence}")
    text = before + line.format(fence) + after
    assert fenced(text) == f"{fence}\n{before}{shown}{after}\n{fence}"


@pytest.mark.parametrize("line", ["{} a", "a {}", "    {}", "```", "\t{}", "{}\x0b"])
def test_lines_that_end_no_block_stay_as_they_are(line: str) -> None:
    long = "`" * LONGEST_FENCE
    text = f"a {long}\n{line.format(long)}"
    assert fenced(text) == f"{long}\n{text}\n{long}"


@pytest.mark.timeout(30)
def test_blanks_and_backticks_in_any_number_are_looked_at_once() -> None:
    long = "`" * LONGEST_FENCE
    for text in (" " * 9_000_000, f"{long}{' ' * 9_000_000}a", f"   {long}\r" * 90_000):
        assert len(fenced(text + long)) < 1.1 * len(text) + 1000
