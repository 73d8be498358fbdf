"""Links to questions: made with the secret key, and with nothing else."""

import string

import pytest
from django.core.signing import BadSignature
from django.test import override_settings
from hypothesis import given, settings
from hypothesis import strategies as st

from chat.approvals.links import ApprovalLink, read_link

LINK = ApprovalLink(
    owner="anna",
    session_id="a1b2c3d4e5",
    confirmation_id=f"conf_{'0' * 32}",
    arguments_hash="ab" * 32,
)
TOKEN_LETTERS = string.ascii_letters + string.digits + "-_.=%/ \x00é"


def test_a_link_tells_what_it_was_made_for():
    assert read_link(LINK.token()) == LINK
    assert LINK.url("https://x.example/mochi") == f"https://x.example/mochi/a/{LINK.token()}"


def test_a_link_is_for_the_question_with_these_arguments(ask):
    question = ask()
    link = ApprovalLink.to(question, "default")
    assert link.is_to(question)
    assert not link._replace(arguments_hash="00" * 32).is_to(question)
    assert not link._replace(session_id="0000000000").is_to(question)
    assert not link._replace(confirmation_id="conf_1").is_to(question)


def test_no_other_byte_makes_another_link():
    token = LINK.token()
    for index, byte in enumerate(token):
        for other in TOKEN_LETTERS:
            if other != byte:
                with pytest.raises(BadSignature):
                    read_link(token[:index] + other + token[index + 1 :])


@given(st.text() | st.text(TOKEN_LETTERS, min_size=40, max_size=400))
@settings(max_examples=300)
def test_no_text_is_a_link(text):
    with pytest.raises(BadSignature):
        read_link(text)


@given(st.integers(0, 400), st.integers(0, 400))
@settings(max_examples=200)
def test_no_piece_of_a_link_is_one(start, end):
    piece = LINK.token()[start:end]
    if piece != LINK.token():
        with pytest.raises(BadSignature):
            read_link(piece)


def test_a_link_of_another_secret_key_is_none():
    with override_settings(SECRET_KEY="another" * 8):
        token = LINK.token()
    with pytest.raises(BadSignature):
        read_link(token)
