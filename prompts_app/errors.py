"""Defines the errors of system prompt files.

The tree::

    MochiError
      * ValidationFailed          VALIDATION_ERROR (a malformed name or content)
      * StorageFull               STORAGE_FULL
      + PromptError
        * PromptNotFound          PROMPT_NOT_FOUND
        * PromptExists            PROMPT_EXISTS
"""

from sessions_app.errors import MochiError


class PromptError(MochiError):
    """Something about one system prompt file."""


class PromptNotFound(PromptError):
    """No prompt has this name, or its file is not a valid prompt."""

    code = "PROMPT_NOT_FOUND"

    def __init__(self, filename: str, reason: str | None = None) -> None:
        if reason is None:
            super().__init__(f"System prompt {filename!r} not found.", filename=filename)
        else:
            super().__init__(
                f"System prompt {filename!r} can't be used ({reason}). It was left untouched.",
                filename=filename,
                reason=reason,
            )


class PromptExists(PromptError):
    """A prompt (or something else on disk) already bears this name."""

    code = "PROMPT_EXISTS"

    def __init__(self, filename: str) -> None:
        super().__init__(
            f"System prompt {filename!r} exists already. Update it or choose another name.",
            filename=filename,
        )
