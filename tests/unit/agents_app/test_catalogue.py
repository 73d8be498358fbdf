"""Which agents there are, and what is told of those that are wrong."""

import asyncio
import os
from pathlib import Path

import pytest

from agents_app.catalogue import AgentCatalogue
from agents_app.errors import AgentInvalid, AgentNotFound
from agents_app.folders import read_folders
from tests.unit.agents_app.conftest import MODULE
from tools_app.toolset import ToolInvocation

TELL = """
def tell(text: str) -> str:
    "Tell the text."
    return f"{name}: {{text}}"
"""
# What one of the modules does when it is imported can be seen from outside.
LOUD = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n"


async def called(catalogue: AgentCatalogue, name: str, text: str = "x") -> str | None:
    invocation = ToolInvocation(name="tell", arguments={"text": text})
    return (await catalogue.toolset(name).call_tool(invocation)).result


async def test_an_agent_is_its_skill_and_its_tools(
    folders, agents_dir: Path, catalogue: AgentCatalogue
) -> None:
    folders.write_agent("poet", skill="---\ndescription: Writes.\nmodel: m:1\n---\nBe brief.")

    agent = (await catalogue.list())["poet"]

    assert (agent.name, agent.description, agent.model) == ("poet", "Writes.", "m:1")
    assert (agent.system_prompt, agent.valid, agent.error_message) == ("Be brief.", True, None)
    assert list(agent.tools) == ["tell"]
    assert agent.tools["tell"].spec.description == "Tell the text."
    assert not agent.tools["tell"].destructive
    assert await called(catalogue, "poet") == "poet: x"


async def test_agents_may_use_the_same_file_names(
    folders, agents_dir: Path, catalogue: AgentCatalogue
) -> None:
    for name in ("one", "two"):
        folder = folders.write_agent(
            name,
            init='from .tools import tell\n__all__ = ["tell"]\n',
            tools=TELL.format(name=name),
        )
        folders.put(folder / "json.py", "raise RuntimeError('not the one that was meant')")

    agents = await catalogue.list()

    assert [agent.valid for agent in agents.values()] == [True, True]
    assert await asyncio.gather(called(catalogue, "one"), called(catalogue, "two")) == [
        "one: x",
        "two: x",
    ]


async def test_what_is_no_agent_is_skipped(
    folders, agents_dir: Path, catalogue: AgentCatalogue
) -> None:
    for name in ("_draft", ".hidden", "agent_chats", "__pycache__"):
        folders.write_agent(name, init=LOUD)
    folders.put(agents_dir / "notes.txt", "x")
    folders.do(lambda: (agents_dir / "gone").symlink_to("nowhere"))

    assert await catalogue.list() == {}
    assert not folders.ran()


def test_sessions_may_be_elsewhere(folders, agents_dir: Path) -> None:
    folders.write_agent("talks")

    assert read_folders(agents_dir, chats_dir=agents_dir / "talks" / "kept") == {}
    assert list(read_folders(agents_dir, chats_dir=Path("/elsewhere"))) == ["talks"]


async def test_a_missing_directory_has_no_agents(
    folders, agents_dir: Path, catalogue: AgentCatalogue
) -> None:
    folders.do(agents_dir.rmdir)

    assert await catalogue.list() == {}


async def test_a_file_in_place_of_the_directory_is_told(
    folders, agents_dir: Path, catalogue: AgentCatalogue
) -> None:
    folders.do(agents_dir.rmdir)
    folders.put(agents_dir, "x")

    (agent,) = (await catalogue.list()).values()

    assert "can't be read: Not a directory" in (agent.error_message or "")


WRONG: dict[str, tuple[dict[str, str | bytes | None], str]] = {
    "no_skill": ({"skill": None}, "SKILL.md is missing"),
    "no_module": ({"module": None}, "no_module.py is missing"),
    "no-module.2": ({"module": None}, "no_module_2.py is missing"),
    "no_init": ({"init": None}, "__init__.py is missing"),
    "no_front_matter": ({"skill": "You are."}, "front matter is missing"),
    "no_description": ({"skill": "---\ndescription: ''\n---\np"}, "description is empty"),
    "no_yaml": ({"skill": "---\ndescription: a: b\n---\np"}, "not YAML"),
    "huge": ({"skill": b"\0" * 300_000}, "larger than 256 KiB"),
    "binary": ({"skill": b"\x89PNG\0"}, "not UTF-8 text"),
    "no_all": ({"init": ""}, "__all__ must be a list"),
    "empty_all": ({"init": "__all__ = []"}, "It has no tool"),
    "no_function": ({"init": "__all__ = ['nothing']"}, "__init__.py, nothing:"),
    "no_library": ({"module": "import nowhere"}, "No module named 'nowhere'"),
    "no_python": ({"module": "def tell(:"}, "SyntaxError"),
    "no_docstring": ({"module": "def tell(text: str) -> str: ..."}, "docstring"),
    "exits": ({"module": "import sys\nsys.exit()"}, "ends the process"),
    "dies": ({"module": "import os\nos._exit(1)"}, "dies.py, dies:"),
    "cyclic": ({"module": "from .b import tell", "b": "from .cyclic import tell"}, "circular"),
    "chats": ({}, "means something else by 'chats'"),
    "reload": ({}, "means something else by 'reload'"),
    "two words": ({}, "An agent's name has"),
    "ä": ({}, "An agent's name has"),
    "x" * 101: ({}, "An agent's name has"),
}


async def test_every_reason_is_told_and_the_others_work(
    folders, agents_dir: Path, catalogue: AgentCatalogue
) -> None:
    for name, (files, _) in WRONG.items():
        folders.write_agent(name, **files)
    folders.write_agent("works")

    agents = await catalogue.list()

    for name, (_, reason) in WRONG.items():
        assert not agents[name].valid, name
        assert reason in (agents[name].error_message or ""), agents[name].error_message
        with pytest.raises(AgentInvalid) as caught:
            await catalogue.usable(name)
        assert reason in caught.value.message
    assert agents.keys() == {*WRONG, "works"}
    assert agents["works"].valid
    assert await called(catalogue, "works") == "works: x"


async def test_a_module_that_hangs_costs_its_agent_alone(
    folders, agents_dir: Path, make_catalogue
) -> None:
    folders.write_agent("a", module="import time\nwhile True: time.sleep(1)")
    folders.write_agent("works")

    agents = await make_catalogue(import_seconds=1).list()

    assert agents["works"].valid
    assert not agents["a"].valid
    assert "a.py" in (agents["a"].error_message or "")


async def test_all_reasons_are_told_at_once(
    folders, agents_dir: Path, catalogue: AgentCatalogue
) -> None:
    folders.write_agent("a", skill="---\nmodel: 1\n---\n", module=None)

    message = (await catalogue.get("a")).error_message or ""

    for reason in ("no description", "model must be", "no system prompt", "a.py is missing"):
        assert reason in message
    assert "No module named" in message


async def test_a_linked_folder_is_refused_and_not_run(
    folders, agents_dir: Path, tmp_path: Path, catalogue: AgentCatalogue
) -> None:
    folder = folders.write_agent("elsewhere", where=tmp_path, module=LOUD)
    folders.do(lambda: (agents_dir / "linked").symlink_to(folder))

    agent = await catalogue.get("linked")

    assert "symbolic link" in (agent.error_message or "")
    assert agent.description == ""
    assert not folders.ran(folder)


async def test_a_linked_skill_is_not_read(
    folders, agents_dir: Path, tmp_path: Path, catalogue: AgentCatalogue
) -> None:
    folder = folders.write_agent("a", skill=None)
    folders.put(tmp_path / "secret", "---\ndescription: d\n---\nsecret")
    folders.do(lambda: (folder / "SKILL.md").symlink_to(tmp_path / "secret"))

    agent = await catalogue.get("a")

    assert agent.system_prompt == ""
    assert "symbolic link" in (agent.error_message or "")


async def test_a_fifo_in_place_of_a_skill_is_not_waited_for(
    folders, agents_dir: Path, catalogue: AgentCatalogue
) -> None:
    folder = folders.write_agent("a", skill=None)
    folders.do(lambda: os.mkfifo(folder / "SKILL.md"))

    agent = await asyncio.wait_for(catalogue.get("a"), 20)

    assert "not a regular file" in (agent.error_message or "")


async def test_a_tool_that_is_invalid_does_not_spoil_the_agent(
    folders, agents_dir: Path, catalogue: AgentCatalogue
) -> None:
    folders.write_agent("a", init="from .a import tell\n__all__ = ['tell', 'no']")

    agent = await catalogue.usable("a")

    assert list(agent.tools) == ["tell"]
    assert [entry.name for entry in agent.invalid_tools] == ["no"]


async def test_an_agent_has_no_tool_of_the_name_of_the_one_that_calls_agents(
    folders, agents_dir: Path, catalogue: AgentCatalogue
) -> None:
    folders.write_agent("a", init="from .a import tell as agent\n__all__ = ['agent']")

    found = await catalogue.get("a")

    assert "agent: 'agent' is the name of the tool that calls agents" in (found.error_message or "")


@pytest.mark.parametrize("name", ["", "nobody", "..", ".", "/etc", "a/../a", "a\0", "agent_chats"])
async def test_only_names_that_were_found_lead_anywhere(
    folders, agents_dir: Path, catalogue: AgentCatalogue, name: str
) -> None:
    folders.write_agent("a")

    with pytest.raises(AgentNotFound):
        await catalogue.get(name)
    with pytest.raises(AgentNotFound):
        catalogue.toolset(name)


async def test_asking_for_one_agent_runs_nothing_of_the_others(
    folders, agents_dir: Path, catalogue: AgentCatalogue
) -> None:
    folders.write_agent("a")
    folders.write_agent("loud", module=LOUD + TELL.format(name="loud"))

    assert list(await catalogue.list(["a", "nobody"])) == ["a"]
    assert await catalogue.list([]) == {}
    assert not folders.ran()

    assert (await catalogue.get("loud")).valid
    assert folders.ran()


async def test_changes_are_noticed(folders, agents_dir: Path, catalogue: AgentCatalogue) -> None:
    folder = folders.write_agent("a")
    assert (await catalogue.get("a")).valid

    folders.put(folder / "SKILL.md", "---\ndescription: New.\n---\nBe new.")
    assert (await catalogue.get("a")).system_prompt == "Be new."

    folders.put(folder / "a.py", TELL.format(name="changed"))
    assert await called(catalogue, "a") == "changed: x"

    folders.write_agent("b")
    assert list(await catalogue.list()) == ["a", "b"]

    folders.do((folder / "SKILL.md").unlink)
    assert "SKILL.md is missing" in ((await catalogue.get("a")).error_message or "")

    folders.do(lambda: folder.rename(agents_dir / "_a"))
    assert list(await catalogue.list()) == ["b"]


async def test_a_reload_reaches_all_processes(folders, agents_dir: Path, make_catalogue) -> None:
    here, there = make_catalogue(), make_catalogue()
    folder = folders.write_agent("a", init=None)
    folders.put(
        folder / "__init__.py",
        "from pathlib import Path\n"
        "DATA = (Path(__file__).parent / 'data.txt').read_text()\n"
        "def tell(text: str) -> str:\n"
        "    '''Tell.'''\n"
        "    return DATA\n"
        "__all__ = ['tell']\n",
    )
    folders.put(folder / "data.txt", "old")
    for catalogue in (here, there):
        assert (await catalogue.get("a")).valid
        assert await called(catalogue, "a") == "old"

    folders.put(folder / "data.txt", "new")
    assert (await here.reload())["a"].valid

    assert await called(here, "a") == "new"
    assert await called(there, "a") == "new"


async def test_many_agents_are_loaded_once_and_listed_again_as_they_are(
    folders, tmp_path: Path, make_catalogue
) -> None:
    loaded = tmp_path / "loaded"
    note = f"with open({str(loaded)!r}, 'a') as file:\n    file.write('.')\n"
    for number in range(50):
        folders.write_agent(f"agent_{number:02}", module=MODULE.format(name=number) + note)
    catalogue = make_catalogue(last_idle_seconds=0.5)
    assert all(agent.valid for agent in (await catalogue.list()).values())
    first = await asyncio.to_thread(loaded.read_text)

    agents = await catalogue.list()

    assert len(agents) == len(first) == 50
    assert await asyncio.to_thread(loaded.read_text) == first
