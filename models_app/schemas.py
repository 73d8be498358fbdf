"""Declares the bodies of the ``/models`` routes."""

from ninja import Schema
from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

_QWEN: JsonDict = {
    "name": "qwen3:14b",
    "size_mb": 9048.2,
    "format": "gguf",
    "family": "qwen3",
    "parameter_size": "14.8B",
    "quantization_level": "Q4_K_M",
    "capabilities": ["completion", "tools", "thinking"],
    "context_length": 40960,
    "provider": "ollama",
}
_SILENT: JsonDict = {
    "provider": "openrouter",
    "code": "NETWORK_ERROR",
    "message": "'openrouter' did not answer within 2 seconds.",
}


class ModelOut(Schema):
    """A model and what it can do."""

    model_config = ConfigDict(json_schema_extra={"example": _QWEN})

    name: str = Field(
        description="The name to ask for, with the provider in front unless that is Ollama"
    )
    size_mb: float = Field(
        description="Size on disk in megabytes (10^6 bytes); 0 for models that run elsewhere"
    )
    format: str = Field(description="File format")
    family: str = Field(description="Model family")
    parameter_size: str = Field(description="Number of parameters, as the provider writes it")
    quantization_level: str = Field(description="Quantization of the weights")
    capabilities: list[str] = Field(
        description="What the model can do: `completion`, `tools`, `thinking`, `vision`, ..."
    )
    context_length: int | None = Field(
        description="Longest context that the model was trained for, in tokens; null if unknown"
    )
    provider: str = Field(description="Name of the provider")


class UnavailableProviderOut(Schema):
    """A provider that could not be asked for its models."""

    provider: str
    code: str = Field(description="What is wrong, as in errors")
    message: str = Field(
        description="What is wrong, in words; the provider's own where it gave some"
    )


class ModelListOut(Schema):
    """The models that can chat, and the providers that could not be asked."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"models": [_QWEN], "unavailable": [_SILENT]}}
    )

    models: list[ModelOut]
    unavailable: list[UnavailableProviderOut] = Field(
        description="Configured providers that failed or did not answer in time"
    )
