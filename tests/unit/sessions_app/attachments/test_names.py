"""Names of attachments are harmless, and say what people call them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.attachments.names import NAME_LENGTH, checked_name


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
