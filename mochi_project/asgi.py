"""Builds the ASGI application, for ``uvicorn mochi_project.asgi:application``.

Importing this module configures Django, as it does in every Django project.
"""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mochi_project.settings")
django.setup(set_prefix=False)

from django.conf import settings as django_settings  # noqa: E402 - after setup

from mochi_project.configuration.setting_errors import ConfigurationError  # noqa: E402
from mochi_project.process.lifespan import MochiApplication  # noqa: E402


def _build() -> MochiApplication:
    try:
        return MochiApplication(django_settings.MOCHI)
    except ConfigurationError as error:
        raise SystemExit(f"mochi-server: {error}") from None


application = _build()
