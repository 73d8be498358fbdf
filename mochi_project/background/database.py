"""Creates, repairs and empties the task queue's database. Needs Django to be set up."""

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
    """Make the database, or bring it up to date; only the holder of the worker's lock may.

    Nothing in it is precious: what is due is found again from the sessions. So one that can't be
    read is put aside, and a new one is made.

    Raises:
        OSError: The file can't be made.
        DatabaseError: The database can't be used (a full disk).
    """
    _make_private_file(path)
    try:
        _migrate()
    except DatabaseError as error:
        if type(error) is not DatabaseError:  # locked, full or read-only: it is sound
            raise
        aside = path.with_name(f"{path.name}.broken-{int(time.time())}")
        logger.error(  # noqa: TRY400 - what sqlite says is the whole story
            "the task queue can't be read (%s); it was put aside as %s", error, aside.name
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
    """Make the file before SQLite does: it gives its own the usual, wider rights."""
    make_private_directory(path.parent)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    os.close(os.open(path, flags, PRIVATE_FILE))


def _migrate() -> None:
    if _applied() < _known():
        call_command("migrate", verbosity=0, interactive=False, skip_checks=True)


def _known() -> set[str]:
    """Return the names of the queue's migrations, without importing them."""
    import django_q.migrations  # noqa: PLC0415 - a name to look beside

    folder = Path(str(django_q.migrations.__file__)).parent
    return {entry.stem for entry in folder.glob("[0-9]*.py")}


def _applied() -> set[str]:
    with connection.cursor() as cursor:
        if "django_migrations" not in connection.introspection.table_names(cursor):
            return set()
        cursor.execute("SELECT name FROM django_migrations WHERE app = 'django_q'")
        return {name for (name,) in cursor.fetchall()}


def _forget_old_tasks() -> None:
    """Empty the queue, and drop all but the last failed tasks, which django-q2 keeps for ever.

    What a worker had begun when it died would stay hidden for eleven minutes; what is due is found
    again at once.
    """
    from django_q.models import Failure, OrmQ  # noqa: PLC0415 - needs Django to be set up

    OrmQ.objects.all().delete()
    kept = Failure.objects.order_by("-stopped").values_list("pk", flat=True)[:KEPT_FAILURES]
    Failure.objects.exclude(pk__in=list(kept)).delete()
