"""A module declares for which owners of data its functions are."""

import pytest

from tests.unit.tools_app.functions.folders import WriteTools, function, load, reasons

pytestmark = pytest.mark.usefixtures("nothing_stays_imported")


def test_a_module_may_be_for_some_owners(write_tools: WriteTools) -> None:
    loaded = load(
        write_tools(
            a=f"__owners__ = ['anna', 'bob']\n__all__ = ['f']\n{function('f')}",
            b=f"__all__ = ['g']\n{function('g')}",
            c=f"__owners__ = []\n__all__ = ['h']\n{function('h')}",
        )
    )

    owners = {name: tool.owners for name, tool in loaded.tools.items()}
    assert owners == {"f": ["anna", "bob"], "g": None, "h": ()}
    assert "owners" not in loaded.groups
    report = loaded.report()
    assert report.of_owner("anna").tools.keys() == {"f", "g"}
    assert report.of_owner("carl").tools.keys() == {"g"}
    assert report.of_owner("carl").groups == {"b": ["g"]}


def test_owners_that_cannot_be_understood_are_nobody(write_tools: WriteTools) -> None:
    loaded = load(write_tools(a=f"__owners__ = 'anna'\n__all__ = ['f']\n{function('f')}"))

    assert loaded.tools["f"].owners == ()
    assert reasons(loaded) == {
        "__owners__": "It must be a list of names of owners; until then nobody may call its tools."
    }
