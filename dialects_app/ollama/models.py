"""Describes models as Ollama's lists do. Pure."""

import hashlib
from collections.abc import Mapping
from typing import Any

from dialects_app.models_list import CREATED, context_length
from dialects_app.ollama.projector import time_of
from dialects_app.shared.additions import MODELS_WITH_TOOLS
from models_app.language_model import ModelInfo


def tag_of(info: ModelInfo) -> Mapping[str, Any]:
    """Return a model's entry in ``/api/tags``."""
    # Clients take names with one digest for the same: a profile is not the model that it names.
    digest = "" if info.name.startswith(MODELS_WITH_TOOLS) else info.digest
    return {
        "name": info.name,
        "model": info.name,
        "size": round(info.size_mb * 1e6),
        "digest": digest or hashlib.sha256(info.name.encode()).hexdigest(),
        **_facts(info),
    }


def shown(info: ModelInfo) -> Mapping[str, Any]:
    """Return the answer of ``/api/show``."""
    architecture, length = info.family or info.provider, context_length(info)
    window = {} if length is None else {f"{architecture}.context_length": length}
    return {
        "modelfile": "",
        "parameters": "",
        "template": "",
        "model_info": {"general.architecture": architecture, **window},
        **_facts(info),
    }


def _facts(info: ModelInfo) -> Mapping[str, Any]:
    return {
        "modified_at": time_of(info.modified_at or CREATED),
        "details": {
            "parent_model": "",
            "format": info.format,
            "family": info.family,
            "families": [info.family] if info.family else [],
            "parameter_size": info.parameter_size,
            "quantization_level": info.quantization_level,
        },
        "capabilities": info.capabilities,
    }
