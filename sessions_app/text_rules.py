"""Validates texts: neither blank nor too long."""

from sessions_app.errors import ValidationFailed

MAX_PROMPT_LENGTH = 9_999
"""The maximum characters of a session's system prompt; an agent's may be longer."""


def require_text(text: str, *, field: str) -> None:
    """Check that a text is not blank.

    Raises:
        ValidationFailed: The text is blank; ``details.field`` names the field.
    """
    if not text.strip():
        raise ValidationFailed(f"{field} must not be blank.", field=field)


def require_prompt(text: str, *, field: str) -> None:
    """Check that a system prompt is not blank and has fewer than 10,000 characters.

    Raises:
        ValidationFailed: It is blank or too long; ``details.field`` names the field.
    """
    require_text(text, field=field)
    if len(text) > MAX_PROMPT_LENGTH:
        raise ValidationFailed(
            f"A system prompt has fewer than {MAX_PROMPT_LENGTH + 1:,} characters; "
            f"this one has {len(text):,}.",
            field=field,
            max_length=MAX_PROMPT_LENGTH,
        )
