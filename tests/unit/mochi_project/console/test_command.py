"""What all commands have in common, as a person at a shell meets it."""

from argparse import _SubParsersAction
from io import StringIO

import pytest
from django.core.management import CommandError, call_command, get_commands, load_command_class

from mochi_project.app import mochi_apps
from mochi_project.cli import commands
from mochi_project.configuration.loading import MochiSettings
from mochi_project.console.command import MochiCommand
from mochi_project.principal import principal
from mochi_project.version import VERSION

DJANGO_FLAGS = (
    "--version",
    "--verbosity",
    "--settings",
    "--pythonpath",
    "--traceback",
    "--no-color",
    "--force-color",
    "--skip-checks",
)
READING = (
    *(("agents", "list"), ("mcp", "list"), ("models", "list"), ("prompts", "list")),
    *(("sessions", "list"), ("sessions", "check"), ("tools", "list"), ("backup", "copy")),
)
WITH_ACTIONS = ("agents", "mcp", "models", "prompts", "sessions", "tools")

pytestmark = pytest.mark.usefixtures("no_colours")


@pytest.fixture
def no_colours(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")


def parser_of(name):
    return load_command_class(get_commands()[name], name).create_parser("mochi-server", name)


def run(name, *words):
    load_command_class(get_commands()[name], name).run_from_argv(["mochi-server", name, *words])


def test_the_top_level_lists_every_command_with_a_line():
    names = {app.name for app in mochi_apps()}
    there_are = {name for name, app in get_commands().items() if app in names}
    assert set(commands()) == there_are - {"runserver"}
    assert all(commands().values())


@pytest.mark.parametrize("name", commands())
def test_help_says_what_a_command_does_and_nothing_of_django(name):
    shown = parser_of(name).format_help()
    assert load_command_class(get_commands()[name], name).help in " ".join(shown.split())
    assert not [flag for flag in DJANGO_FLAGS if flag in shown]


@pytest.mark.parametrize("name", WITH_ACTIONS)
def test_help_of_an_action_says_what_it_does(name):
    (actions,) = (a for a in parser_of(name)._actions if isinstance(a, _SubParsersAction))
    for said in actions._choices_actions:
        shown = actions.choices[said.dest].format_help()
        assert said.help[1:] in " ".join(shown.split())


@pytest.mark.parametrize("name", WITH_ACTIONS)
def test_an_action_that_is_left_out_shows_help(name, capsys):
    with pytest.raises(SystemExit) as ended:
        run(name)
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert f"usage: mochi-server {name}" in shown
    assert "actions:" in shown


def test_a_misspelt_action_is_pointed_out(capsys):
    with pytest.raises(SystemExit) as ended:
        run("sessions", "lst")
    assert ended.value.code == 2
    assert "there is no action 'lst'; did you mean list?" in capsys.readouterr().err


def test_an_action_like_no_other_is_answered_with_all_of_them(capsys):
    with pytest.raises(SystemExit):
        run("prompts", "frobnicate")
    assert "no action 'frobnicate'; there are list, show" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["sessions", "list", "--limmit", "3"], "there is no flag --limmit; did you mean --limit?"),
        (["chat", "--modle=qwen3:14b"], "there is no flag --modle; did you mean --model?"),
        (["restore", "--overwrit3"], "did you mean --overwrite?"),  # though DIR is missing, too
        (["tools", "list", "--zzz"], "no flag --zzz; `mochi-server tools --help` lists them"),
        (
            ["chat", "--data-dir", "."],
            "--data-dir comes before the command: mochi-server --data-dir ... chat ...",
        ),
    ],
)
def test_a_misspelt_flag_is_pointed_out(words, complaint, capsys):
    with pytest.raises(SystemExit) as ended:
        run(*words)
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["sessions", "list", "--lim", "3"],  # argparse takes what is short for one
        ["sessions", "--traceback", "list", "--json"],
        ["sessions", "list", "--search=--limmit", "--json"],
    ],
)
def test_a_flag_that_is_there_is_taken(words, capsys):
    run(*words)
    assert capsys.readouterr().err == ""


def test_a_data_directory_that_is_not_there_looks_like_no_empty_one(tmp_path, settings):
    missing, file = tmp_path / "missing", tmp_path / "file"
    file.touch()
    for data_dir, why in ((missing, "No such file or directory"), (file, "Not a directory")):
        settings.MOCHI = MochiSettings(data_dir=data_dir)
        for words in READING:
            with pytest.raises(CommandError, match=f"{data_dir} can't be used: {why}"):
                call_command(*words)


@pytest.mark.parametrize("command", ["send", "sessions", "doctor", "usage", "qcluster"])
def test_a_commands_version_is_that_of_the_program(capsys, command):
    with pytest.raises(SystemExit) as ended:
        run(command, "--version")
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{VERSION}\n"


def test_an_error_is_one_line_without_the_name_of_its_class(capsys):
    with pytest.raises(SystemExit) as ended:
        run("sessions", "show", "ffffffffff")
    assert ended.value.code == 1
    assert capsys.readouterr().err == "mochi-server: Session with ID 'ffffffffff' not found.\n"


def test_an_error_does_not_steer_the_terminal(capsys, tmp_path):
    taken = tmp_path / "\x1b[2J\x9b"
    taken.touch()
    with pytest.raises(SystemExit):
        run("backup", str(taken))
    assert capsys.readouterr().err.startswith(f"mochi-server: {tmp_path}/[2J is there already")


def test_programs_get_an_exception():
    with pytest.raises(CommandError, match="not found"):
        call_command("sessions", "show", "ffffffffff")


class OfOwner(MochiCommand):
    """A command that says for whom it acts."""

    data_dir = "unused"
    of_owner = True

    def add_arguments(self, parser):
        self.add_actions(parser).add_parser("tell", help="tell it")

    def handle(self, *args, **options):
        self.stdout.write(principal().owner)


@pytest.mark.parametrize(
    ("words", "owner"),
    [
        (["tell"], "default"),
        (["tell", "--owner", "anna"], "anna"),
        (["--owner", "anna", "tell"], "anna"),
    ],
)
def test_a_command_acts_for_the_owner_that_is_named(words, owner):
    out = StringIO()
    OfOwner(stdout=out).run_from_argv(["mochi-server", "of-owner", *words])
    assert out.getvalue() == f"{owner}\n"


def test_a_command_refuses_what_is_no_name_of_an_owner():
    with pytest.raises(CommandError, match="is no name of an owner"):
        call_command(OfOwner(), "tell", owner="../anna")
