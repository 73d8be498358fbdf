"""Tools of clients have one name where models call them, and their own where clients run them."""

from dialects_app.responses.tool_forms import ToolForm, form_of, free_text, offered_name
from models_app.call_arguments import arguments_of
from sessions_app.messages import ToolCall


def call(arguments):
    return ToolCall(id="c", name="exec", arguments=arguments)


def test_a_namespace_is_part_of_the_offered_name():
    assert offered_name("exec") == "exec"
    assert offered_name("read", "mcp__files") == "mcp__files__read"
    assert offered_name("exec", "functions") == "exec"


def test_a_long_name_is_cut_and_stays_another_than_its_neighbours():
    names = {offered_name(f"{'long_' * 12}{end}", "mcp__files") for end in "ab"}
    assert len(names) == 2
    assert {len(name) for name in names} == {64}
    assert all(name.startswith("mcp__files__long_") for name in names)


def test_a_plain_function_has_no_form():
    assert form_of("read", None, is_custom=False) is None
    assert form_of("read", "functions", is_custom=False) is None
    assert form_of("exec", "functions", is_custom=True) == ToolForm(name="exec", is_custom=True)
    assert form_of("read", "mcp__a", is_custom=False) == ToolForm(name="read", namespace="mcp__a")


def test_a_custom_tool_gets_the_text_whatever_the_model_wrote_around_it():
    assert free_text(call({"input": "*** Begin Patch"})) == "*** Begin Patch"
    assert free_text(call(arguments_of("*** Begin Patch"))) == "*** Begin Patch"
    assert free_text(call({"patch": "x"})) == '{"patch":"x"}'
    assert free_text(call({"input": 7})) == '{"input":7}'
