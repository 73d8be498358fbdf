"""Which tools a request for a response offers."""

from dialects_app.responses.body import ToolIn
from dialects_app.responses.tools import read_tools
from tests.unit.dialects_app.counted_name import CountedName


def test_a_thousand_tools_and_a_thousand_allowed_ones_are_compared_once_each(monkeypatch):
    names = [f"tool{number}" for number in range(1000)]
    tools = [ToolIn(type="function", name=CountedName(name)) for name in names]
    allowed = [{"type": "function", "name": name} for name in names]
    choice = {"type": "allowed_tools", "mode": "auto", "tools": allowed}
    monkeypatch.setattr(CountedName, "looks", 0)
    assert len(read_tools(tools, choice).client) == 1000
    assert CountedName.looks < 20_000
