"""Stores know the line that ends a journal without decoding it."""

from chat.storage.journal import END_EVENT, END_LINE, line
from chat.stream.events import Done


def test_the_end_of_a_journal_is_the_event_done() -> None:
    assert Done.event == END_EVENT
    assert line(12, END_EVENT, "{}").startswith("12".join(END_LINE))
