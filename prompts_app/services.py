"""Provides the service of system prompts: those of an owner, laid over those that all share."""

from collections.abc import Mapping

from mochi_project.app import Factory, Services
from mochi_project.principal import DEFAULT_OWNER
from prompts_app.service import SystemPromptService
from prompts_app.settings import PromptsSettings
from sessions_app.store.laid_over import LaidOverRecords
from sessions_app.store.records import RecordStores


def _prompts(services: Services) -> SystemPromptService:
    settings, stores = services.get(PromptsSettings), services.get(RecordStores)
    shared = stores.open(settings.resolved_system_prompts_dir, "prompts")
    if settings.owner == DEFAULT_OWNER:
        return SystemPromptService(shared)
    own = stores.open(settings.own_system_prompts_dir, "prompts", owner=settings.owner)
    return SystemPromptService(LaidOverRecords(own, shared))


OWNED: Mapping[type | str, Factory] = {SystemPromptService: _prompts}
