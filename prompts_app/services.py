"""Provides the service of system prompts."""

from collections.abc import Mapping

from mochi_project.app import Factory, Services
from prompts_app.service import SystemPromptService
from prompts_app.settings import PromptsSettings
from sessions_app.store.records import RecordStores


def _prompts(services: Services) -> SystemPromptService:
    directory = services.get(PromptsSettings).resolved_system_prompts_dir
    return SystemPromptService(services.get(RecordStores).open(directory, "prompts"))


FACTORIES: Mapping[type | str, Factory] = {SystemPromptService: _prompts}
