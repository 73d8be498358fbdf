import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from prompts_app.service import SystemPromptService
from tests.services import OneOwner, services_of


@pytest.fixture(autouse=True)
def prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SystemPromptService:
    service = SystemPromptService(tmp_path)
    service.create("helpful.md", "Be [b]helpful[/b].")
    monkeypatch.setattr(
        "mochi_project.app._pool", OneOwner(services_of({SystemPromptService: service}))
    )
    return service


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("prompts", *arguments, stdout=out)
    return out.getvalue()


def test_the_list_is_a_table_for_people() -> None:
    table = run("list")
    assert "helpful.md" in table
    assert "Be [b]helpful[/b]." in table


def test_the_list_is_json_for_scripts() -> None:
    assert json.loads(run("list", "--json")) == {
        "prompts": [{"filename": "helpful.md", "preview": "Be [b]helpful[/b].", "word_count": 2}]
    }


def test_one_prompt_is_shown_as_it_is() -> None:
    assert run("show", "helpful.md") == "Be [b]helpful[/b].\n"
    assert json.loads(run("show", "helpful.md", "--json"))["content"] == "Be [b]helpful[/b]."


@pytest.mark.parametrize("name", ["missing.md", "../secret"])
def test_a_prompt_that_can_not_be_shown_is_said_in_a_sentence(name: str) -> None:
    with pytest.raises(CommandError, match=r"\.$"):
        run("show", name)


def test_an_empty_list_says_how_to_begin(prompts: SystemPromptService) -> None:
    prompts.delete("helpful.md")
    assert run("list") == "No prompts yet: `mochi-server init` writes examples.\n"
