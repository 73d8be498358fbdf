"""Exports clients for Ollama, usable without the server and without Django settings."""

from models_app.language_model import ModelInfo
from models_app.ollama.clients import AsyncOllamaClient, OllamaClient
from models_app.ollama.structured import AsyncInstructorOllamaClient

__all__ = ["AsyncInstructorOllamaClient", "AsyncOllamaClient", "ModelInfo", "OllamaClient"]
