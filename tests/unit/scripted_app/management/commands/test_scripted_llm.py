"""``manage.py scripted_llm``: the scripted server as a process of its own."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

ROOT = Path(__file__).parents[5]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_serves_and_ends_on_a_signal(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "django", "scripted_llm", "--words-per-second", "0"]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "mochi_project.settings"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            assert found, line
            with urllib.request.urlopen(found[0], timeout=10) as reply:
                assert reply.read() == b"Ollama is running"
            process.send_signal(number)
            assert process.wait(timeout=10) == 0
        finally:
            process.kill()


@pytest.mark.parametrize("options", [{"port": 70_000}, {"words_per_second": -1.0}])
def test_options_that_make_no_sense_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(CommandError):
        call_command("scripted_llm", **options)
