"""Provides what tells people of questions and turns."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from chat.conversation_storage import SessionKind, Storages
from chat.notices.notifier import NoticeQueue, Notifier
from chat.settings import ChatSettings
from chat.storage.task_queue import TaskQueue
from mochi_project.app import Factory, Services
from mochi_project.configuration.config import ServerSettings

if TYPE_CHECKING:
    from chat.notices.courier import Courier


def _notice_queue(services: Services) -> NoticeQueue:
    queue = NoticeQueue(services.get(TaskQueue))
    services.on_close(partial(asyncio.to_thread, queue.close))
    return queue


def _notifier(services: Services) -> Notifier:
    settings = services.get(ChatSettings)
    queue = services.get(NoticeQueue) if settings.webhook_url is not None else None
    return Notifier(queue, settings.webhook_events, settings.owner)


def _courier(services: Services) -> "Courier":
    from chat.notices.courier import Courier  # noqa: PLC0415 - only in the worker

    storage = services.get(Storages)[SessionKind.CHAT]
    return Courier(
        services.get(ChatSettings),
        storage.repository,
        storage.confirmation_store,
        services.get(TaskQueue),
        services.get(ServerSettings).public_url,
    )


FACTORIES: Mapping[type | str, Factory] = {NoticeQueue: _notice_queue}
OWNED: Mapping[type | str, Factory] = {
    Notifier: _notifier,
    "chat.notices.courier.Courier": _courier,
}
