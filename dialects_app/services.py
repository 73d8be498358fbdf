"""Provides what other clients' protocols share: the images and files of their requests."""

from collections.abc import Mapping

from dialects_app.shared.attaching import RequestFiles
from mochi_project.app import Factory, Services
from mochi_project.configuration.config import MochiSettings
from sessions_app.attachments.service import AttachmentService


def _request_files(services: Services) -> RequestFiles:
    from dialects_app.shared.fetching import Fetcher  # noqa: PLC0415 - few need a client

    settings = services.get(MochiSettings)
    return RequestFiles(
        services.get(AttachmentService),
        max_count=settings.max_attachments,
        fetcher=Fetcher() if settings.fetch_images else None,
    )


FACTORIES: Mapping[type | str, Factory] = {RequestFiles: _request_files}
