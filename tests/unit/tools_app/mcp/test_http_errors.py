"""What statuses of HTTP mean, in words."""

import pytest

from tools_app.mcp.http_errors import refusal, words_of_body


def test_a_challenge_is_explained():
    challenge = (
        'Bearer error="invalid_token", error_description="The token expired", scope="files:read", '
        'resource_metadata="https://x.example/.well-known/oauth-protected-resource"'
    )

    assert refusal(401, {"www-authenticate": challenge}, "") == (
        "It answered 401 Unauthorized: The token expired. It wants a valid key: set 'headers' "
        "of its entry in mcp.json. The key needs the scope 'files:read'. How to sign in is "
        "described at https://x.example/.well-known/oauth-protected-resource ."
    )


@pytest.mark.parametrize(
    ("status", "headers", "said", "message"),
    [
        (403, {}, "no", "It answered 403 Forbidden. It said: no"),
        (
            429,
            {"retry-after": "30"},
            "",
            "It answered 429 Too Many Requests. Try again in 30 seconds.",
        ),
        (
            503,
            {"retry-after": "Fri, 01 Jan"},
            "",
            "It answered 503 Service Unavailable. Try again from Fri, 01 Jan on.",
        ),
        (599, {}, "", "It answered 599."),
    ],
)
def test_a_status_is_explained(status, headers, said, message):
    assert refusal(status, headers, said) == message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", ""),
        (b"plain\n text", "plain text"),
        (b"<html><style>p {}</style><h1>502</h1><p>Bad\nGateway</p>", "502 Bad Gateway"),
        (b'{"error":\n {"message": "no key"}}', '{"error": {"message": "no key"}}'),
        (b'{"other": 1}', '{"other": 1}'),
    ],
)
def test_the_words_of_a_body_are_found(body, words):
    assert words_of_body(body) == words
