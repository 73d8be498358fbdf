"""Names of attachments are harmless, and say what people call them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.attachments.names import NAME_LENGTH, checked_name, mention
from sessions_app.messages import Attachment


@pytest.mark.parametrize(
    ("name", "media_type", "expected"),
    [
        ("cat.png", "image/png", "cat.png"),
        ("Größe 猫.png", "image/png", "Größe 猫.png"),
        ("../../etc/passwd", "text/plain", "passwd"),
        ("C:\\Users\\me\\cat.png", "image/png", "cat.png"),
        ("a\r\nSet-Cookie: b.png", "image/png", "aSet-Cookie: b.png"),
        (None, "image/jpeg", "image.jpg"),
        ("", "application/pdf", "file.pdf"),
        ("..", "text/plain", "file.txt"),
        (" .\u202e", "image/png", "image.png"),
        ("x" * 300 + ".png", "image/png", "x" * 251 + ".png"),
        ("x" * 300, "image/png", "x" * 255),
    ],
)
def test_a_name_is_the_last_part_of_a_path(
    name: str | None, media_type: str, expected: str
) -> None:
    assert checked_name(name, media_type) == expected


@given(st.text())
def test_no_name_leads_elsewhere(name: str) -> None:
    checked = checked_name(name, "image/png")
    assert 0 < len(checked) <= NAME_LENGTH
    assert checked.isprintable()
    assert "/" not in checked
    assert "\\" not in checked
    assert checked not in {".", ".."}
    assert checked_name(checked, "image/png") == checked


@pytest.mark.parametrize(
    ("media_type", "left_out", "words"),
    [
        ("image/png", False, "[image cat]"),
        ("image/heic", True, "[image cat left out]"),
        ("application/pdf", True, "[file cat left out]"),
        ("text/plain", False, "[file cat]"),
    ],
)
def test_a_mention_says_what_it_stands_for(media_type: str, left_out: bool, words: str) -> None:
    attachment = Attachment(id="sha256:0", name="cat", media_type=media_type, size=1)
    assert mention(attachment, left_out=left_out) == words
