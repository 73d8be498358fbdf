"""Creates, migrates and empties the task queue's database. Requires a configured Django."""

import logging
import os
import time
from pathlib import Path

from django.core.management import call_command
from django.db import DatabaseError, connection

from sessions_app.store.atomic import PRIVATE_FILE, make_private_directory

logger = logging.getLogger(__name__)

KEPT_FAILURES = 100


def prepare_queue_database(path: Path) -> None:
    """Create or migrate the database; call only while holding the worker's lock.

    Its content is expendable, because due tasks are found again from the sessions. So an unreadable
    database is renamed and a new one created.

    Raises:
        OSError: The file can't be created.
        DatabaseError: The database can't be used (a full disk).
    """
    _make_private_file(path)
    try:
        _migrate()
    except DatabaseError as error:
        if type(error) is not DatabaseError:  # locked, full or read-only, but not corrupt
            raise
        aside = path.with_name(f"{path.name}.broken-{int(time.time())}")
        logger.error(  # noqa: TRY400 - SQLite's message is enough
            "the task queue can't be read (%s); it was renamed to %s", error, aside.name
        )
        connection.close()
        path.rename(aside)
        for suffix in ("-wal", "-shm"):
            path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)
        _make_private_file(path)
        _migrate()
    _forget_old_tasks()
    connection.close()


def _make_private_file(path: Path) -> None:
    """Create the file with mode 0600, before SQLite does so with default permissions."""
    make_private_directory(path.parent)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    os.close(os.open(path, flags, PRIVATE_FILE))


def _migrate() -> None:
    call_command("migrate", verbosity=0, interactive=False, skip_checks=True)


def _forget_old_tasks() -> None:
    """Empty the queue, and delete all but the last failed tasks, which django-q2 keeps forever.

    Tasks of a dead worker would stay hidden for eleven minutes; after emptying the queue, due tasks
    are found again immediately.
    """
    from django_q.models import Failure, OrmQ  # noqa: PLC0415 - needs Django to be set up

    OrmQ.objects.all().delete()
    kept = Failure.objects.order_by("-stopped").values_list("pk", flat=True)[:KEPT_FAILURES]
    Failure.objects.exclude(pk__in=list(kept)).delete()
