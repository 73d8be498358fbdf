"""Tasks in the queue of all owners name whose session they are about."""

from chat.storage.task_queue import TasksOfOwner, owner_and_session

TASK = "chat.tasks.summarize"


class Queue:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.arguments: list[str] = []

    def add(self, function: str, *arguments: str, delay_seconds: float) -> bool:
        self.arguments += arguments
        return True

    def hold(self, function: str, argument: str) -> bool:
        self.arguments.append(argument)
        return True

    def renew(self, function: str, argument: str) -> None:
        self.arguments.append(argument)

    def release(self, function: str, argument: str) -> None:
        self.arguments.append(argument)


def used(owner: str) -> list[str]:
    """Return the arguments of all calls for one session of an owner."""
    queue = Queue()
    tasks = TasksOfOwner(queue, owner)
    assert tasks.add(TASK, "0123456789", delay_seconds=0)
    assert tasks.hold(TASK, "0123456789")
    tasks.renew(TASK, "0123456789")
    tasks.release(TASK, "0123456789")
    return queue.arguments


def test_a_task_names_its_owner() -> None:
    assert used("anna") == ["anna/0123456789"] * 4
    assert owner_and_session("anna/0123456789") == ("anna", "0123456789")


def test_tasks_without_an_owner_are_of_the_default_one_as_they_always_were() -> None:
    assert used("default") == ["0123456789"] * 4
    assert owner_and_session("0123456789") == ("default", "0123456789")
