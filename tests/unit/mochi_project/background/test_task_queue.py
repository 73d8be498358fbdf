"""The queue's database belongs to the worker: others leave it alone until it has begun it."""

from pathlib import Path

from mochi_project.background.task_queue import DatabaseTaskQueue


def test_a_database_that_the_worker_has_not_begun_is_not_opened(tmp_path: Path) -> None:
    database = tmp_path / "queue.sqlite3"
    queue = DatabaseTaskQueue(database)

    assert not queue.add("builtins.len", "a", delay_seconds=0)
    database.touch()
    assert not queue.add("builtins.len", "a", delay_seconds=0)
