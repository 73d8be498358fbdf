"""CI, hooks and editor settings name commands, versions and files that are there."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.environment import AND_NOT_SLOW

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
CI = (ROOT / ".ci/run").read_text("utf-8")
RECIPE = re.compile(r"^([a-z][\w-]*)(?: [^:\n]*)?:(?!=)", re.MULTILINE)
RECIPES_TEXT = (ROOT / "justfile").read_text("utf-8")
RECIPES = set(RECIPE.findall(RECIPES_TEXT))
PINNED_ACTION = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")

every_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return content


def steps(workflow: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for job in workflow["jobs"].values():
        yield from job["steps"]


def classified(prefix: str) -> list[str]:
    found = (entry.removeprefix(f"{prefix} :: ") for entry in PROJECT["classifiers"])
    return [version for version in found if re.fullmatch(r"\d+\.\d+", version)]


@every_workflow
def test_workflows_run_recipes_of_the_justfile(path: Path) -> None:
    commands = [step["run"] for step in steps(read(path)) if "run" in step]
    named = {command.split()[1] for command in commands if command.startswith("just ")}

    assert named
    assert named - RECIPES == set()


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_pages_name_recipes_of_the_justfile(page: str) -> None:
    named = re.findall(r"(?:`|^)just ([a-z][\w-]*)", (ROOT / page).read_text("utf-8"), re.MULTILINE)

    assert set(named) - RECIPES == set()


@every_workflow
def test_workflows_may_only_read_and_come_to_an_end(path: Path) -> None:
    workflow = read(path)

    assert workflow["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] <= 300 for job in workflow["jobs"].values())


@every_workflow
def test_actions_and_images_are_pinned_beside_their_version(path: Path) -> None:
    text = path.read_text("utf-8")
    used = re.findall(r"^ *(?:- )?uses: (.*)$", text, re.MULTILINE)
    images = re.findall(r"^ *(?:container|image|driver-opts|sbom): (.*)$", text, re.MULTILINE)

    assert used
    assert [action for action in used if not PINNED_ACTION.fullmatch(action)] == []
    assert [
        image for image in images if not re.search(r":[\w.-]+@sha256:[0-9a-f]{64}$", image)
    ] == []


@every_workflow
def test_checked_out_code_gets_no_token(path: Path) -> None:
    checkouts = [
        step for step in steps(read(path)) if step.get("uses", "").startswith("actions/checkout@")
    ]

    assert checkouts
    assert all(step["with"] == {"persist-credentials": False} for step in checkouts)


def test_ci_runs_every_python_and_system_that_the_package_supports() -> None:
    matrix = read(ROOT / ".github/workflows/ci.yml")["jobs"]["test"]["strategy"]["matrix"]

    assert matrix["python"] == classified("Programming Language :: Python")
    assert PROJECT["requires-python"] == f">={matrix['python'][0]}"
    assert matrix["os"] == ["ubuntu-latest", "macos-latest"]


def test_ci_runs_every_django_that_the_package_supports() -> None:
    matrix = read(ROOT / ".github/workflows/ci.yml")["jobs"]["django-6"]["strategy"]["matrix"]

    assert ["5.2", *matrix["django"]] == classified("Framework :: Django")


def test_the_nightly_run_soaks_and_tries_the_newest_versions() -> None:
    commands = [step.get("run") for step in steps(read(ROOT / ".github/workflows/nightly.yml"))]

    assert {"just soak", "just test-newest"} <= set(commands)


def test_a_release_is_of_a_tag_with_the_version_of_the_project_and_tested() -> None:
    release = read(ROOT / ".github/workflows/release.yml")
    jobs = release["jobs"]
    recipe = re.search(r"^check-tag tag:\n((?: +.*\n)+)", RECIPES_TEXT, re.MULTILINE)

    assert release[True] == {"push": {"tags": ["v*"]}}  # `on`, as YAML 1.1 reads it
    assert 'just check-tag "$GITHUB_REF_NAME"' in [step.get("run") for step in steps(release)]
    assert recipe
    assert 'test v"$(uv version --short)" = {{ quote(tag) }}' in recipe[1]
    assert {name: job.get("needs") for name, job in jobs.items()} == {
        "version": None,
        "test": "version",
        "build": "test",
        "image": "test",
        "pypi": ["build", "image"],
        "publish": ["pypi", "image"],
    }
    assert "bash .ci/run" in [step.get("run") for step in jobs["test"]["steps"]]


def test_each_job_of_a_release_may_do_what_it_is_for() -> None:
    jobs = read(ROOT / ".github/workflows/release.yml")["jobs"]
    signing = {"contents": "read", "id-token": "write", "attestations": "write"}

    assert {name: job.get("permissions") for name, job in jobs.items()} == {
        "version": None,
        "test": None,
        "build": signing,
        "image": {**signing, "packages": "write"},
        "pypi": {"id-token": "write"},
        "publish": {"contents": "write"},
    }
    assert jobs["pypi"]["environment"] == "pypi"
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text("utf-8")


def test_the_image_is_small_runs_without_root_and_says_whether_it_is_well() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text("utf-8")
    (base,) = re.findall(r"^ARG PYTHON_IMAGE=(.*)$", dockerfile, re.MULTILINE)
    last = dockerfile.rpartition("\nFROM ")[2]

    assert re.fullmatch(r"python:3\.\d+-slim@sha256:[0-9a-f]{64}", base)
    assert read(ROOT / ".github/workflows/release.yml")["jobs"]["test"]["container"] == base
    assert set(re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)) == {"${PYTHON_IMAGE}"}
    assert "\nUSER 1000:1000\n" in last
    assert "\nHEALTHCHECK " in last
    assert re.findall(r"(?:TOKEN|KEY|SECRET|PASSWORD)=", dockerfile) == []


def test_homebrew_gets_the_file_of_the_release_and_the_sum_that_is_filled_in() -> None:
    formula = (ROOT / "packaging/homebrew/mochi-server.rb").read_text("utf-8")
    repository = PROJECT["urls"]["Repository"]

    assert f'homepage "{repository}"' in formula
    assert f'"{repository}/releases/download/v@VERSION@/mochi_server-@VERSION@.tar.gz"' in formula
    assert 'sha256 "@SHA256@"' in formula
    assert "s/@VERSION@/" in RECIPES_TEXT
    assert "s/@SHA256@/" in RECIPES_TEXT


def test_the_guides_run_the_image_that_a_release_makes() -> None:
    named = re.findall(
        r"ghcr\.io/[\w./-]+:[\w.]+", (ROOT / "docs/deployment.md").read_text("utf-8")
    )
    path = PROJECT["urls"]["Repository"].removeprefix("https://github.com/")

    assert named
    assert set(named) == {f"ghcr.io/{path}:{PROJECT['version']}"}


def test_the_changelog_has_the_version_of_the_project() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")

    assert re.search(
        rf"^## \[{re.escape(PROJECT['version'])}\] - \d{{4}}-", changelog, re.MULTILINE
    )


def test_ci_runs_first_what_the_readme_says() -> None:
    (command,) = re.findall(r"^\{ (.*?); \} ", CI, re.MULTILINE)

    assert command == "pip install uv && uv run pytest"
    assert f"\n```sh\n{command}\n```\n" in (ROOT / "README.md").read_text("utf-8")
    assert command.removeprefix("pip install uv && ") in CI.split("uv run pytest -m")[0]


def test_ci_runs_what_the_default_run_leaves_out() -> None:
    (chosen,) = re.findall(r'"-m", "(.*?)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    left_out = set(re.findall(r"not (\w+)", chosen))
    marks = re.findall(r"uv run pytest -m (\"[\w ]+\"|\w+) ", CI)

    assert left_out
    assert left_out - set(re.findall(r"(?<!not )\b\w+", " ".join(marks))) == set()
    assert left_out - RECIPES == set()


def test_slow_tests_run_where_their_folder_is_named() -> None:
    (chosen,) = re.findall(r'"-m", "(.*?)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/functional/openapi"],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )

    assert chosen.endswith(AND_NOT_SLOW)
    assert "test_schemathesis.py::" in collected.stdout


def test_ci_waits_for_each_step_that_it_begins_beside_others() -> None:
    begun = re.findall(r"^begin (\w+) ", CI, re.MULTILINE)

    assert begun
    assert sorted(re.findall(r"^finish (\w+)$", CI, re.MULTILINE)) == sorted(begun)


def test_hooks_are_commands_that_are_there() -> None:
    (local,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    # An environment on top of another one finds the programs of both on its path.
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

    assert local["repo"] == "local"
    for hook in local["hooks"]:
        uv, run, command, *arguments = hook["entry"].split()
        assert (uv, run) == ("uv", "run")
        assert shutil.which(command, path=programs)
        assert all((ROOT / argument).exists() for argument in arguments if argument.endswith(".py"))


def test_editors_break_lines_where_the_formatter_does() -> None:
    settings = ConfigParser()
    settings.read_string("[top]\n" + (ROOT / ".editorconfig").read_text("utf-8"))
    ruff = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["ruff"]

    assert settings["*.py"].getint("max_line_length") == ruff["line-length"]
