"""Why a tool is not there, file by file."""

from sessions_app.messages import ToolSpec
from tools_app.diagnosis import diagnose
from tools_app.toolset import InvalidTool, Tool, ToolListing

BROKEN = InvalidTool(name="mail", file="mail.py", reason="SyntaxError")


def listing(*invalid, **files):
    tools = {
        name: Tool(spec=ToolSpec(name=name, description="", parameters={}), file=f"{file}.py")
        for name, file in files.items()
    }
    return ToolListing(tools=tools, invalid=invalid)


def test_each_file_is_told_with_its_tools_and_its_faults():
    found = diagnose(["mail.py", "math_tools.py", "__init__.py"], listing(BROKEN, add="math_tools"))
    assert [one.file for one in found] == ["__init__.py", "mail.py", "math_tools.py"]
    assert [one.hint for one in found] == [None, None, None]
    assert found[1].invalid == [BROKEN]
    assert found[2].tools == ["add"]


def test_a_module_that_nobody_exports_gets_told_how():
    found = diagnose(["__init__.py", "spare.py"], listing(add="math_tools"))
    assert "__init__.py and list them in __all__" in found[-1].hint


def test_a_module_without_all_gets_told_so_where_there_is_no_init():
    (found,) = diagnose(["spare.py"], listing())
    assert "has no __all__" in found.hint


def test_an_init_that_exports_nothing_is_pointed_out():
    (found,) = diagnose(["__init__.py"], listing())
    assert "exports no tool" in found.hint


def test_files_of_a_folder_that_was_not_loaded_get_no_hints():
    folder = InvalidTool(name="tools", file="", reason="The folder is not trusted.")
    found = diagnose(["__init__.py", "spare.py"], listing(folder))
    assert [(one.file, one.hint) for one in found] == [
        ("", None),
        ("__init__.py", None),
        ("spare.py", None),
    ]


def test_a_file_that_only_the_listing_knows_is_told_too():
    deep = InvalidTool(name="deep", file="sub/deep.py", reason="ImportError")
    assert [one.file for one in diagnose(["a.py"], listing(deep))] == ["a.py", "sub/deep.py"]
