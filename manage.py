#!/usr/bin/env python
"""Django's command line for this project: ``python manage.py <command>``."""

import os
import sys


def main() -> None:
    """Run one management command."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mochi_project.settings")
    from django.core.management import execute_from_command_line  # noqa: PLC0415 - needs settings

    from mochi_project.process.command_notices import warn_before  # noqa: PLC0415

    warn_before(*sys.argv[1:2])
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
