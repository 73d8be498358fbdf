"""Exports system prompt files as a library: ``SystemPromptService(directory)``."""

from prompts_app.prompts import Prompt, PromptSummary
from prompts_app.service import SystemPromptService

__all__ = ["Prompt", "PromptSummary", "SystemPromptService"]
