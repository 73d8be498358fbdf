"""Refuses texts that are blank or too long."""

from sessions_app.errors import ValidationFailed

MAX_PROMPT_LENGTH = 9_999
"""Characters of a system prompt that a person sets; an agent's may be longer."""


def require_text(text: str, *, field: str) -> None:
    """Refuse blank text.

    Raises:
        ValidationFailed: There is nothing but white space; ``details.field`` names the field.
    """
    if not text.strip():
        raise ValidationFailed(f"{field} must not be blank.", field=field)


def require_prompt(text: str, *, field: str) -> None:
    """Refuse a blank system prompt, and one of 10,000 characters or more.

    Raises:
        ValidationFailed: ``details.field`` names the field.
    """
    require_text(text, field=field)
    if len(text) > MAX_PROMPT_LENGTH:
        raise ValidationFailed(
            f"A system prompt has fewer than {MAX_PROMPT_LENGTH + 1:,} characters; "
            f"this one has {len(text):,}.",
            field=field,
            max_length=MAX_PROMPT_LENGTH,
        )
