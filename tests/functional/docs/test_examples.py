"""The examples in README.md and the guides give what they show."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import httpx
import pytest

from scripted_app.replies import RequestMessage, plan_reply
from tests.functional.conftest import NO_TLS

ROOT = Path(__file__).parents[3]
EXAMPLE = re.compile(
    r"<!-- example: stream -->\n```sh\n(.*?)```\n\n(?:[^`]+\n\n)?```\n(.*?)```\n", re.DOTALL
)
LEFT_OUT = "…"
INSTRUCTION = re.compile(r"<!-- instruction -->\n```\n(.*?)```\n", re.DOTALL)
VARIES = re.compile(
    r'(?<=")[0-9a-f]{10}(?=")|\b[0-9a-f]{20}\b|(?<=")20\d\d-[^"]+\+00:00(?=")|(?<=_ms":)\d+'
)
INSTRUCTIONS = INSTRUCTION.findall((ROOT / "docs/test-mode.md").read_text())


@pytest.mark.parametrize("page", ["README.md", "docs/front-end.md"])
def test_the_stream_that_is_shown_is_what_the_server_sends(page: str, server: Any) -> None:
    example = EXAMPLE.search((ROOT / page).read_text())
    assert example
    arguments = shlex.split(example[1].replace("\\\n", ""))
    url = arguments[2].replace("localhost:8000", server.url)
    body = json.loads(arguments[arguments.index("-d") + 1])

    answer = httpx.post(url, json=body, timeout=30, trust_env=False, verify=NO_TLS)

    shown = re.escape(VARIES.sub("VARIES", example[2]).strip()).replace(LEFT_OUT, "(?s:.)*")
    assert re.fullmatch(shown, VARIES.sub("VARIES", answer.text).strip())


@pytest.mark.parametrize("message", INSTRUCTIONS)
def test_the_instruction_blocks_in_the_guide_are_understood(message: str) -> None:
    assert plan_reply([RequestMessage("user", message)]).mode == "instruction"


def test_there_are_instruction_blocks_in_the_guide() -> None:
    assert len(INSTRUCTIONS) >= 3
