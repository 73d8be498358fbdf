"""Exports are recognised by their shape, whatever their files are called."""

import pytest

from tests.unit.transfer_app.formats.exports import entries_of
from transfer_app.formats.conversation import ImportedConversation, UnusableEntry
from transfer_app.formats.recognition import FORMATS, parse
from transfer_app.formats.sources import SOURCES

FOREIGN = [source for source in SOURCES if source not in ("auto", "mochi")]


@pytest.mark.parametrize("source", FOREIGN)
def test_every_export_is_recognised_and_taken_for_no_other(source: str) -> None:
    entry = entries_of(source)[0]
    found = parse(entry)
    assert isinstance(found, ImportedConversation)
    assert found.source == source
    for other in SOURCES:
        if other not in ("auto", source):
            with pytest.raises(UnusableEntry, match=f"export of {other}"):
                parse(entry, other)


def test_every_program_that_is_named_has_a_reader() -> None:
    assert {"auto", *FORMATS} == set(SOURCES)


@pytest.mark.parametrize("entry", [None, [], "text", 5])
def test_what_is_no_object_is_refused(entry: object) -> None:
    with pytest.raises(UnusableEntry, match="not a JSON object"):
        parse(entry)


def test_what_is_of_no_known_shape_is_refused() -> None:
    with pytest.raises(UnusableEntry, match="no known export"):
        parse({"projects": []})
