"""No request holds the server up, fills its memory or its answer, whatever is in it.

Every field of every body gets one costly value, and every operation refuses a few large bodies.
``MOCHI_E2E_BODIES=all`` gives every field every value, 25,000 requests in some 20 minutes, and has
every operation refuse 500 bodies.
"""

import os
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.functional.conftest import NO_TLS
from tests.functional.memory.hostile_bodies import LARGE, WRONG, Field, fields, large

pytestmark = [pytest.mark.slow, pytest.mark.soak]

LONGEST_PAUSE = 0.25
LARGEST_ANSWER = 64 * 1024
ALL = os.environ.get("MOCHI_E2E_BODIES") == "all"
REFUSALS = 500 if ALL else 12
REFUSED_BYTES = 200_000
REFUSED_FILLINGS = ("texts", "objects of one", "names", "one text")
REFUSED_FIELDS = 100 if ALL else 8
SLACK = 1 << 20  # holes between objects, caches that are filled
BLOCKS_OF_A_REFUSAL = 60  # a refusal that is kept has 180 or more
PARAMETER_BYTES = 40_000  # the head of a request has 64 KiB
PARAMETERS = ("a" * PARAMETER_BYTES, "1," * (PARAMETER_BYTES // 2), '[{"' * (PARAMETER_BYTES // 10))
ENDLESS = "/api/v1/events"

Request = Callable[[], tuple[int, int]]


class PauseFile:
    """Reads the longest pause of the server's event loop."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.write_bytes(bytes(16))

    def reset(self) -> None:
        """Forget earlier pauses."""
        with self._path.open("r+b") as file:
            file.write(struct.pack("d", 0))

    def longest(self) -> float:
        """Return the longest pause, once the event loop ticks again."""
        _, ticks = self._read()
        deadline = time.monotonic() + 60
        while True:
            longest, now = self._read()
            if now >= ticks + 2:
                return longest
            assert time.monotonic() < deadline, "the event loop stands still"
            time.sleep(0.002)

    def _read(self) -> tuple[float, float]:
        longest, ticks = struct.unpack("dd", self._path.read_bytes())
        return longest, ticks


@dataclass
class Victim:
    """A server, and what requests to it can be about."""

    http: httpx.Client
    chat: Any
    probe: Any
    pauses: PauseFile
    conversation: str
    document: dict[str, Any]

    def path(self, operation: str) -> str:
        """Return the path of an operation, about things that are there."""
        session = self.chat.new_session() if "{session_id}" in operation else ""
        return (
            operation.partition(" ")[2]
            .replace("{session_id}", session)
            .replace("{message_index}", "0")
            .replace("{filename}", "brief.md")
            .replace("{name}", "work")
            .replace("{conversation_id}", self.conversation)
        )

    def send(self, method: str, path: str, **request: Any) -> tuple[int, int]:
        """Send a request; return the status, and the size of a refusal."""
        with self.http.stream(method, path, **request) as answer:
            size = len(answer.read()) if answer.status_code >= 400 else 0
            return answer.status_code, size

    def post(self, field: Field, path: str, filling: str) -> tuple[int, int]:
        """Send a body in which a field is filled."""
        method = field.operation.partition(" ")[0]
        headers = {"content-type": "application/json"}
        return self.send(method, path, content=field.body(filling), headers=headers)

    def fault_of(self, request: Request) -> str | None:
        """Return what is wrong with a request's answer."""
        self.pauses.reset()
        status, size = request()
        pause = self.pauses.longest()
        is_fine = status != 500 and size <= LARGEST_ANSWER and pause <= LONGEST_PAUSE
        return None if is_fine else f"{status}, {size} bytes, a pause of {pause:.2f} s"


@pytest.fixture
def victim(probed: Callable[..., Any], tmp_path: Path) -> Iterator[Victim]:
    path = tmp_path / "pauses"
    pauses = PauseFile(path)
    # Requests that name no model are refused, and begin no turns.
    server, probe = probed(MOCHI_E2E_PAUSES=str(path), MOCHI_DEFAULT_MODEL="missing")
    probe.full_collections()  # from here on pauses are measured
    chat = server.chat()
    prompt = {"filename": "brief.md", "content": "You are a helpful assistant."}
    profile = {"name": "work", "provider": "ollama", "model": "qwen3:14b"}
    for route, body in (("/system-prompts", prompt), ("/profiles", profile)):
        assert chat.http.post(route, json=body).status_code == 201
    with httpx.Client(base_url=server.url, timeout=120, trust_env=False, verify=NO_TLS) as http:
        conversation = http.post("/v1/conversations", json={}).json()["id"]
        document = chat.http.get("/openapi.json").json()
        yield Victim(http, chat, probe, pauses, conversation, document)


def fillings_of(field: Field, index: int) -> dict[str, str]:
    """Return what is put into a field: everything, or what its turn is."""
    fillings = {**large(LARGE, field.item), **WRONG}
    if ALL:
        return fillings
    name = [*fillings][index % len(fillings)]
    return {name: fillings[name]}


@pytest.mark.timeout(7200)
def test_no_field_of_a_body_holds_the_server_up_whatever_is_in_it(victim: Victim) -> None:
    faults = []
    for index, field in enumerate(fields(victim.document)):
        path = victim.path(field.operation)
        for name, filling in fillings_of(field, index).items():
            if fault := victim.fault_of(partial(victim.post, field, path, filling)):
                faults.append(f"{field.operation} {field.name or 'body'}: {name}: {fault}")
    assert faults == []


@pytest.mark.timeout(600)
def test_no_parameter_holds_the_server_up_whatever_is_in_it(victim: Victim) -> None:
    faults = []
    for route, methods in victim.document["paths"].items():
        for method, operation in methods.items():
            for parameter in operation.get("parameters", ()):
                where, name = parameter["in"], parameter["name"]
                if route == ENDLESS and where == "query":
                    continue
                for value in PARAMETERS:
                    path = route
                    request: dict[str, Any] = {}
                    if where == "path":
                        path = route.replace(f"{{{name}}}", quote(value[:10_000], safe=""))
                    elif where == "query":
                        request["params"] = {name: value[:10_000]}
                    else:
                        request["headers"] = {name: value}
                    path = victim.path(f"{method} {path}")
                    attempt = partial(victim.send, method.upper(), path, **request)
                    if fault := victim.fault_of(attempt):
                        faults.append(f"{method} {route} {name}: {value[:5]}: {fault}")
    assert faults == []


@pytest.mark.timeout(7200)
def test_nothing_is_kept_of_the_requests_that_an_operation_refuses(victim: Victim) -> None:
    kept = {}
    for operation, refused in _refused(victim).items():
        _repeat(refused, REFUSALS // 2)
        before = victim.probe.look()
        _repeat(refused, REFUSALS)
        after = victim.probe.look()
        heap, blocks = after.heap - before.heap, after.blocks - before.blocks
        if heap > SLACK or blocks > REFUSALS * BLOCKS_OF_A_REFUSAL:
            kept[operation] = f"{heap} bytes, {blocks} blocks"
    assert kept == {}


def _refused(victim: Victim) -> dict[str, list[Request]]:
    """Return for each operation some requests that it refuses."""
    found: dict[str, list[Request]] = {}
    for index, field in enumerate(fields(victim.document)):
        requests = found.setdefault(field.operation, [])
        if len(requests) < REFUSED_FIELDS:
            name = REFUSED_FILLINGS[index % len(REFUSED_FILLINGS)]
            filling = large(REFUSED_BYTES, field.item)[name]
            path = victim.path(field.operation)
            requests.append(partial(victim.post, field, path, filling))
    for route, methods in victim.document["paths"].items():
        for method, operation in methods.items():
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "query" and route != ENDLESS:
                    path = victim.path(f"{method} {route}")
                    params = {parameter["name"]: "x" * 5000}
                    request = partial(victim.send, method.upper(), path, params=params)
                    found.setdefault(f"{method.upper()} {route}?", []).append(request)
    chosen = {
        operation: [request for request in requests if 400 <= request()[0] < 500]
        for operation, requests in found.items()
    }
    return {operation: requests for operation, requests in chosen.items() if requests}


def _repeat(requests: list[Request], times: int) -> None:
    for number in range(times):
        requests[number % len(requests)]()
