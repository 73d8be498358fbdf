"""Defines the errors of models and their providers.

The tree::

    MochiError
      + ModelError
        + ModelNotFound           MODEL_NOT_FOUND
          * ProfileNotFound       PROFILE_NOT_FOUND
          * ModelNotPermitted     FORBIDDEN
        * ProfileExists           PROFILE_EXISTS
        * ThinkingNotSupported    VALIDATION_ERROR
        * ToolsNotSupported       VALIDATION_ERROR
        * FilesNotSupported       VALIDATION_ERROR
        * SchemaNotSupported      VALIDATION_ERROR
        * ContextOverflow         CONTEXT_OVERFLOW
        * ContentRefused          CONTENT_REFUSED
        * Unauthorized            UNAUTHORIZED
        * RateLimited             RATE_LIMITED (retryable, unless a quota is used up)
        * NetworkError            NETWORK_ERROR (retryable)
        * ServiceUnavailable      SERVICE_UNAVAILABLE (retryable, unless the request is at fault)
        * OllamaUnreachable       OLLAMA_UNREACHABLE (retryable)
        * OllamaError             OLLAMA_ERROR (retryable or not, depending on the answer)
        * ToolCallUnreadable      TOOL_CALL_UNREADABLE (retryable)
      + CallRefused             (``usage_app.budgets.errors``)

``details.provider`` names the provider; the message carries the provider's own words. Ollama has
codes of its own beside RATE_LIMITED; UNAUTHORIZED to SERVICE_UNAVAILABLE are the other providers'.
``details`` hold ``status`` if the provider sent one, and ``retry_after`` in seconds if it asked for
a pause.
"""

from typing import Any

from sessions_app.errors import MochiError
from sessions_app.surrogates import join_surrogates, mend_json


class CallRefused(MochiError):
    """A model call was not made, because of a rule of this server: no provider has failed."""


class ModelError(MochiError):
    """A model could not be used, or its answer broke off.

    Attributes:
        provider_code: The provider's own code of a refusal, where it has one; not shown to clients.
        provider_field: The field of the request that the provider blames, where it names one.
    """

    provider_code: str | None = None
    provider_field: str | None = None

    def __init__(
        self,
        message: str,
        *,
        provider: str = "ollama",
        retryable: bool | None = None,
        **details: Any,
    ) -> None:
        super().__init__(join_surrogates(message), provider=provider, **mend_json(details))
        if retryable is not None:
            self.retryable = retryable


class ModelNotFound(ModelError):
    """The provider does not have this model."""

    code = "MODEL_NOT_FOUND"


class ModelNotPermitted(ModelNotFound):
    """The key of the request is for other models: for it, there is no such one."""

    code = "FORBIDDEN"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The key of this request is not for model '{name}': GET /api/v1/models lists those "
            "that it is for.",
            model=name,
        )
        del self.details["provider"]  # none was asked


class ProfileNotFound(ModelNotFound):
    """No profile has this name, or its file can't be read as one."""

    code = "PROFILE_NOT_FOUND"

    def __init__(self, name: str, reason: str | None = None) -> None:
        if reason is None:
            super().__init__(f"Profile '{name}' not found.", provider="profile", name=name)
        else:
            super().__init__(
                f"Profile '{name}' can't be used ({reason}). Its file was left untouched.",
                provider="profile",
                name=name,
                reason=reason,
            )


class ProfileExists(ModelError):
    """A profile (or something else on disk) already bears this name."""

    code = "PROFILE_EXISTS"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"Profile '{name}' exists already. Update it or choose another name.",
            provider="profile",
            name=name,
        )


class ThinkingNotSupported(ModelError):
    """Thinking was asked of a model that can't think."""

    code = "VALIDATION_ERROR"


class ToolsNotSupported(ModelError):
    """Tools were offered to a model that can't call them."""

    code = "VALIDATION_ERROR"


class FilesNotSupported(ModelError):
    """The model or its provider does not accept an image or a file."""

    code = "VALIDATION_ERROR"


class SchemaNotSupported(ModelError):
    """The provider does not accept the schema of a tool or of the answer."""

    code = "VALIDATION_ERROR"


class ContextOverflow(ModelError):
    """The request is longer than the context window, and the window can't grow to hold it."""

    code = "CONTEXT_OVERFLOW"


class ContentRefused(ModelError):
    """The provider refuses the conversation or the model's output."""

    code = "CONTENT_REFUSED"


class Unauthorized(ModelError):
    """There is no API key, or the provider does not accept it."""

    code = "UNAUTHORIZED"


class RateLimited(ModelError):
    """The provider has had too many requests, or a quota is used up."""

    code = "RATE_LIMITED"
    retryable = True


class NetworkError(ModelError):
    """No connection to the provider could be made, or it broke or fell silent."""

    code = "NETWORK_ERROR"
    retryable = True


class ServiceUnavailable(ModelError):
    """The provider failed, refused the request, or its answer made no sense."""

    code = "SERVICE_UNAVAILABLE"
    retryable = True


class OllamaUnreachable(ModelError):
    """No connection to Ollama could be made."""

    code = "OLLAMA_UNREACHABLE"
    retryable = True


class OllamaError(ModelError):
    """Ollama refused the request, or its answer broke off or made no sense."""

    code = "OLLAMA_ERROR"


class ToolCallUnreadable(ModelError):
    """The model wrote a tool call that its server could not read."""

    code = "TOOL_CALL_UNREADABLE"
    retryable = True

    def __init__(self, reason: str, **details: Any) -> None:
        super().__init__(
            f"The model wrote a tool call that could not be read ({reason}). Ask again, or ask "
            "another model.",
            reason=reason,
            **details,
        )


REQUEST_REFUSALS = (
    CallRefused,
    ModelNotFound,
    ThinkingNotSupported,
    ToolsNotSupported,
    FilesNotSupported,
    SchemaNotSupported,
)
"""Errors that a request itself is to blame for, even if only the provider can tell."""
