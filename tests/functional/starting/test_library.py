"""``mochi_server`` as a library: light, and without Django's settings."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mochi_server.attachments import FileAttachmentStore
from mochi_server.sessions import SessionManager, UserMessage
from sessions_app.attachments.service import keep
from sessions_app.session import append_messages
from tests.functional.conftest import ROOT

pytestmark = pytest.mark.slow

Run = Callable[..., Any]

NOW = "2026-11-22T10:00:00.000000+00:00"

HEAVY = ("django", "ninja", "pydantic", "uvicorn", "ollama", "httpx", "aiohttp", "structlog")


def python(run: Run, code: str, **variables: str) -> str:
    """Run code in a fresh interpreter and return what it printed."""
    return printed(run([sys.executable, "-W", "error", "-c", code], **variables))


def warm_python(run: Run, code: str) -> str:
    """Run code where the server's modules were imported before, and return what it printed."""
    strict = "import warnings\nwarnings.simplefilter('error')\n" + code
    return printed(run([sys.executable, "-c", strict], forks_code=True))


def printed(ended: Any) -> str:
    assert ended.returncode == 0, ended.stderr
    return str(ended.stdout).strip()


def test_importing_the_package_imports_nothing_heavy(run: Run) -> None:
    code = f"import sys, mochi_server; print([m for m in {HEAVY!r} if m in sys.modules])"

    assert python(run, code) == "[]"


@pytest.mark.parametrize(
    "statement",
    [
        "from mochi_server import create_app, __version__",
        "from mochi_server.attachments import AttachmentService, FileAttachmentStore, resolve",
        "from mochi_server.context import DynamicContextWindowService, TruncateByTokens",
        "from mochi_server.constants import SUMMARY_UNSUPPORTED_MODELS",
        "from mochi_server.errors import AlreadyConfiguredError, ConfigurationError",
        "from mochi_server.sessions import SessionManager",
        "from mochi_server.prompts import SystemPromptService",
        "from mochi_server.ollama import OllamaClient, AsyncOllamaClient",
        "from mochi_server.ollama import AsyncInstructorOllamaClient",
        "from mochi_server.tools import ToolDiscoveryService, ToolSchemaService",
        "from mochi_server.tools import ToolExecutionService, ToolExecutionResult",
    ],
)
def test_the_public_imports_need_no_django_settings(run: Run, statement: str) -> None:
    code = f"{statement}\nfrom django.conf import settings\nprint(settings.configured)"

    assert python(run, code) == "False"


def test_images_and_files_are_read_and_kept_beside_the_server(run: Run, tmp_path: Path) -> None:
    example = re.search(
        r"<!-- files -->\n```python\n(.*?)```\n",
        (ROOT / "docs/embedding.md").read_text("utf-8"),
        re.DOTALL,
    )
    assert example
    store = FileAttachmentStore(tmp_path / "attachments")
    attached = keep(store, b"Hello!", name="a.txt", max_bytes=10)
    sessions = SessionManager(tmp_path / "chat_sessions")
    asked = UserMessage(
        content="?",
        message_id="1",
        timestamp=NOW,
        attachments=(attached,),
    )
    session_id = sessions.create("m").session_id
    sessions.change(session_id, lambda session: append_messages(session, asked, now=NOW))
    code = example[1].replace("./my_data", str(tmp_path))

    said = python(run, code)

    assert said.splitlines() == ["a.txt text/plain b'Hello!'", "note.txt text/plain 5"]


def test_the_same_settings_give_the_same_application(run: Run) -> None:
    code = """
from mochi_server import create_app
settings = {"data_dir": "data", "workers": 2, "allowed_hosts": ["a.example"]}
first = create_app(**settings, background_worker=False)
print(create_app(**settings, worker=False) is first)  # its former name
print(create_app() is first)
"""
    assert warm_python(run, code).split() == ["True", "True"]


def test_other_settings_in_the_same_process_are_refused(run: Run) -> None:
    code = """
from mochi_server import create_app
from mochi_server.errors import AlreadyConfiguredError
create_app(ollama_host="http://one:1")
try:
    create_app(ollama_host="http://two:2")
except AlreadyConfiguredError as error:
    print(error)
"""
    assert "other settings (ollama_host)" in warm_python(run, code)


def test_a_process_that_runs_another_django_project_is_refused(run: Run) -> None:
    code = """
from django.conf import settings
settings.configure()
from mochi_server import create_app
from mochi_server.errors import AlreadyConfiguredError
try:
    create_app()
except AlreadyConfiguredError as error:
    print(error)
"""
    assert "another project" in python(run, code)


@pytest.mark.parametrize(
    ("argument", "complaint"),
    [("port='abc'", "MOCHI_PORT must be a valid integer"), ("prot=1", "prot is not a setting")],
)
def test_an_unusable_argument_is_a_configuration_error(
    run: Run, argument: str, complaint: str
) -> None:
    code = f"""
from mochi_server import create_app
from mochi_server.errors import ConfigurationError
try:
    create_app({argument})
except ConfigurationError as error:
    print(error)
"""
    assert complaint in python(run, code)


def test_test_mode_makes_one_fresh_directory_for_the_application(run: Run) -> None:
    code = """
from mochi_server import create_app
first = create_app(test_mode=True)
print(create_app(test_mode=True) is first)
"""
    assert warm_python(run, code) == "True"


def test_create_app_leaves_the_logging_of_its_program_alone(run: Run) -> None:
    code = """
import logging
logging.basicConfig(format="mine: %(message)s")
django = logging.getLogger("django")
before = (logging.getLogger().handlers[:], logging.getLogger().level, django.handlers[:])
from mochi_server import create_app
create_app(data_dir="data")
after = (logging.getLogger().handlers[:], logging.getLogger().level, django.handlers[:])
print(after == before)
"""
    assert warm_python(run, code) == "True"


EMBEDDED = """
import asyncio, httpx, logging, sys
from mochi_server import create_app

app = create_app(test_mode=True, test_words_per_second=0, background_worker=True)
before = logging.getLogger().handlers[:]

async def talk():
    from mochi_project.app import current_pool
    from mochi_project.background.task_queue import DatabaseTaskQueue
    from mochi_project.configuration.config import ServerSettings

    async with app.running():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            body = {"message": "Hello", "model": "qwen3:14b"}
            assert (await client.post("/api/v1/chat", json=body, timeout=60)).status_code == 200
        settings = current_pool().shared.get(ServerSettings)
        queue = DatabaseTaskQueue(settings.resolved_private_dir / "queue.sqlite3")
        while not await asyncio.to_thread(queue.add, "builtins.len", "a", delay_seconds=0):
            await asyncio.sleep(0.05)

asyncio.run(talk())
writing = {
    name: logger.handlers
    for name, logger in logging.root.manager.loggerDict.items()
    if isinstance(logger, logging.Logger)
    and any(not isinstance(each, logging.NullHandler) for each in logger.handlers)
}
print(logging.getLogger().handlers == before, writing, logging.getLogger("django-q").propagate)
"""


def test_an_embedded_server_logs_to_no_place_of_its_own_choice(run: Run) -> None:
    ended = run([sys.executable, "-W", "error", "-c", EMBEDDED])

    assert printed(ended) == "True {} True"
    assert "[Q]" not in ended.stderr  # as django-q2 marks the lines of its own handler


WORKER_THAT_FAILS = """
import asyncio, logging, pathlib
from mochi_server import create_app

class Kept(logging.Handler):
    def emit(self, record):
        lines.append(f"{record.name}: {record.getMessage()}")

lines = []
logging.getLogger().addHandler(Kept())
pathlib.Path("data/.mochi/queue.sqlite3").mkdir(parents=True)
app = create_app(data_dir="data", background_worker=True)

async def wait():
    async with app.running():
        while not any("database can't be made" in line for line in lines):
            await asyncio.sleep(0.05)

asyncio.run(wait())
print([line for line in lines if "database can't be made" in line][0])
"""


def test_what_the_worker_of_an_embedded_server_warns_of_is_logged_by_the_program(run: Run) -> None:
    ended = run([sys.executable, "-c", WORKER_THAT_FAILS])

    assert printed(ended).startswith("mochi_project.background.supervisor: the background worker: ")
    assert "database can't be made" not in ended.stderr


@pytest.mark.parametrize(
    "name",
    [
        "errors.AlreadyConfiguredError",
        "errors.ConfigurationError",
        "attachments.AttachmentDamaged",
        "workspace.WorkspaceError",
    ],
)
def test_tracebacks_name_errors_as_programs_import_them(run: Run, name: str) -> None:
    module, _, error = name.partition(".")
    code = f"from mochi_server.{module} import {error}\nraise {error}('why')"

    ended = run([sys.executable, "-c", code])

    assert ended.stderr.splitlines()[-1] == f"mochi_server.{name}: why"


def test_the_application_is_of_a_type_that_programs_can_name(run: Run) -> None:
    code = """
import inspect, mochi_server
print(inspect.signature(mochi_server.create_app).return_annotation.__module__)
print(mochi_server.create_app(data_dir="data"))
"""
    type_of, shown = warm_python(run, code).splitlines()

    assert type_of == "mochi_server"
    assert re.fullmatch(r"<MochiApplication for .*/data>", shown)


def test_create_app_configures_logging_when_it_is_asked_to(run: Run) -> None:
    code = """
import logging
from mochi_server import create_app
create_app(data_dir="data", log_level="WARNING", log_format="json")
root = logging.getLogger()
print(root.level == logging.WARNING, type(root.handlers[0].formatter).__name__)
"""
    assert warm_python(run, code) == "True StructuredFormatter"


@pytest.mark.parametrize("is_package", [True, False])
def test_a_package_of_the_program_that_hides_one_of_ours_is_told_in_a_sentence(
    run: Run, tmp_path: Path, is_package: bool
) -> None:
    theirs = tmp_path / "chat" if is_package else tmp_path / "chat.py"
    if is_package:
        theirs.mkdir()
    (theirs / "__init__.py" if is_package else theirs).write_text("")
    code = """
from mochi_server import create_app
from mochi_server.errors import ConfigurationError
try:
    create_app(data_dir="data")
except ConfigurationError as error:
    print(error)
"""
    assert python(run, code) == (
        f"your program's `chat` ({theirs}) hides the package of that name of mochi-server: "
        "rename yours, or run mochi-server in a process of its own"
    )


def test_a_process_whose_environment_names_another_django_project_is_refused(run: Run) -> None:
    code = """
from mochi_server import create_app
from mochi_server.errors import AlreadyConfiguredError
import os
try:
    create_app()
except AlreadyConfiguredError as error:
    print(error, os.environ["DJANGO_SETTINGS_MODULE"])
"""
    printed = python(run, code, DJANGO_SETTINGS_MODULE="theirs.settings")

    assert "run mochi-server in a process of its own" in printed
    assert printed.endswith("theirs.settings")


def test_including_the_urls_in_another_django_project_is_refused_in_a_sentence(run: Run) -> None:
    code = """
from django.conf import settings
settings.configure(ROOT_URLCONF="mochi_project.urls")
from django.core.exceptions import ImproperlyConfigured
from django.urls import resolve
try:
    resolve("/api/v1/health")
except ImproperlyConfigured as error:
    print(error)
"""
    assert "run mochi-server in a process of its own" in python(run, code)
