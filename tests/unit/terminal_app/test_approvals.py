"""A person is asked whether a tool may run, and told which answers count."""

import io

import pytest
from msgspec import UNSET, UnsetType

from chat.approvals.service import Remember
from chat.stream.events import ToolConfirmationRequired
from terminal_app.approvals import Approvals
from terminal_app.console import Console


class Person(Console):
    """A console at which somebody types these lines, one for each question."""

    def __init__(self, *lines: str) -> None:
        super().__init__(io.StringIO(), io.StringIO())
        self.lines = list(lines)

    async def ask(self, question: str) -> str | None:
        self.info(question)
        return self.lines.pop(0)

    @property
    def shown(self) -> str:
        assert isinstance(self.err, io.StringIO)
        return self.err.getvalue()


def question(*, changed: bool = False, begun: bool = False) -> ToolConfirmationRequired:
    reason: UnsetType | str = "tool_changed" if changed else "may_have_run" if begun else UNSET
    return ToolConfirmationRequired(
        tool_name="clean",
        arguments={},
        call_index=0,
        tool_call_id="call",
        confirmation_id="confirmation",
        reason=reason,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("word", "remember"), [("", None), ("no", None), ("Y", "once"), ("a", "session")]
)
async def test_a_tool_runs_once_or_in_the_whole_session_as_is_answered(
    word: str, remember: Remember | None
) -> None:
    assert await Approvals(Person(word)).decide(question(changed=False)) == remember


async def test_an_unknown_word_is_answered_with_all_choices() -> None:
    person = Person("perhaps", "n")

    await Approvals(person).decide(question(changed=False))

    assert "y: run it, n: don't, a: run it, and this tool always in this conversation" in (
        person.shown
    )


@pytest.mark.parametrize("word", ["a", "always", "perhaps"])
async def test_a_changed_tool_is_never_approved_for_more_than_the_call(word: str) -> None:
    person = Person(word, "y")

    assert await Approvals(person).decide(question(changed=True)) == "once"

    assert not person.lines
    assert "y: run it, n: don't\n" in person.shown
    assert "always" not in person.shown


async def test_a_call_that_may_have_run_is_asked_about_plainly_and_once() -> None:
    person = Person("always", "y")

    assert await Approvals(person).decide(question(begun=True)) == "once"

    assert "was running when the server stopped, and may have done its work" in person.shown
    assert "Run clean() again? [y/N]" in person.shown
