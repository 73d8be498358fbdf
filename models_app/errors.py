"""What can go wrong between this server and a model.

The tree::

    MochiError
      + ModelError
        * ModelNotFound           MODEL_NOT_FOUND
        * ThinkingNotSupported    VALIDATION_ERROR
        * ToolsNotSupported       VALIDATION_ERROR
        * ContextOverflow         CONTEXT_OVERFLOW
        * OllamaUnreachable       OLLAMA_UNREACHABLE (retryable)
        * OllamaError             OLLAMA_ERROR (retryable or not, as the server's answer tells)

``details.provider`` names who runs the model; the message carries the provider's own words.
"""

from typing import Any

from sessions_app.errors import MochiError


class ModelError(MochiError):
    """A model could not be used, or its answer broke off."""

    def __init__(
        self,
        message: str,
        *,
        provider: str = "ollama",
        retryable: bool | None = None,
        **details: Any,
    ) -> None:
        super().__init__(message, provider=provider, **details)
        if retryable is not None:
            self.retryable = retryable


class ModelNotFound(ModelError):
    """The provider does not have this model."""

    code = "MODEL_NOT_FOUND"


class ThinkingNotSupported(ModelError):
    """Thinking was asked of a model that can't think."""

    code = "VALIDATION_ERROR"


class ToolsNotSupported(ModelError):
    """Tools were offered to a model that can't call them."""

    code = "VALIDATION_ERROR"


class ContextOverflow(ModelError):
    """The request is longer than the context window, and the window can't grow to hold it."""

    code = "CONTEXT_OVERFLOW"


class OllamaUnreachable(ModelError):
    """No connection to Ollama could be made."""

    code = "OLLAMA_UNREACHABLE"
    retryable = True


class OllamaError(ModelError):
    """Ollama refused the request, or its answer broke off or made no sense."""

    code = "OLLAMA_ERROR"
