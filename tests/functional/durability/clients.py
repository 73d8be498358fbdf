"""Clients that remember what a server told them, and check later that it is true."""

import itertools
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.functional.conftest import NO_TLS

MODEL = "qwen3:14b"
CONFIRM = "tool_call_confirmation_required"
AGENT_CONFIRM = "agent_tool_confirmation_required"
_numbers = itertools.count(1)


class Refused(Exception):
    """The server refused a request.

    Attributes:
        for_now: Whether the server may take the request when it is sent again.
    """

    def __init__(self, text: str, *, for_now: bool) -> None:
        super().__init__(text)
        self.for_now = for_now


@dataclass
class Witness:
    """What one client was told about one session.

    Attributes:
        questions: User messages of which an event or an answer was received.
        answers: Texts of answers that were said to be complete, by message id.
        texts: Pieces of answers that broke off, as they were received.
        results: Ids of tool calls whose result was received.
        notes: What tools were asked to write down; each line may stand there once.
        made: Sessions that were forked from this one, with how many messages they had.
        defects: What must not happen: errors of the server that can't be tried again.
        owner: Whose session it is.
        headers: The key of the owner.
    """

    session_id: str
    owner: str = "default"
    headers: dict[str, str] = field(default_factory=dict)
    questions: list[str] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    made: dict[str, int] = field(default_factory=dict)
    defects: list[str] = field(default_factory=list)


class FaultyServerClient:
    """Speaks with a server that is being broken; knows which answers are allowed.

    Args:
        url: The server.
        witness: Where to note down what was told.
        chance: Where its choices come from.
        tolerated: Codes beyond retryable errors that the present fault explains.
        detached: Whether its turns go on without it.

    Attributes:
        last_seen: The last request and what came of it, for a client that hangs.
    """

    def __init__(
        self,
        url: str,
        witness: Witness,
        chance: random.Random,
        tolerated: frozenset[str],
        *,
        detached: bool = False,
    ) -> None:
        self._detached = detached
        self.witness = witness
        self.chance = chance
        self.last_seen = "nothing"
        self._tolerated = tolerated
        self._http = httpx.Client(
            base_url=f"{url}/api/v1",
            timeout=30,
            trust_env=False,
            verify=NO_TLS,
            headers=witness.headers,
        )

    def close(self) -> None:
        self._http.close()

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request; raises ``Refused`` for what may be tried again."""
        self.last_seen = f"{method} {path}: no answer yet"
        answer = self._http.request(method, path, **options)
        self.last_seen = f"{method} {path}: {answer.status_code} {answer.text[:200]}"
        self._judge(f"{method} {path}", answer.status_code, answer.text)
        return answer

    def stream(self, body: dict[str, Any], **headers: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Have a turn as a stream, and note down what is received."""
        path = f"/chat/{self.witness.session_id}/stream"
        told = Told(self.witness, body.get("message"), self._tolerated)
        self.last_seen = f"POST {path}: no answer yet"
        try:
            asked = {**body, "detached": True} if self._detached else body
            with self._http.stream("POST", path, json=asked, headers=headers) as answer:
                if answer.status_code != 200:
                    self._judge(path, answer.status_code, answer.read().decode())
                received = b""
                for chunk in answer.iter_bytes():
                    self.last_seen = f"{path}: {chunk[-200:]!r}"
                    received += chunk
                    while b"\n\n" in received:
                        frame, _, received = received.partition(b"\n\n")
                        frame = frame.removeprefix(b"retry: 2000\n")
                        if frame.startswith(b"id: "):
                            _, name, data = frame.decode().split("\n")
                            event = name[7:], json.loads(data[6:])
                            told.take(*event)
                            yield event
        finally:
            told.end()

    def _judge(self, what: str, status: int, text: str) -> None:
        if status < 400:
            return
        try:
            error = json.loads(text)["error"]
            tolerated = error["code"] in self._tolerated
            fine = error["details"].get("retryable") or tolerated
        except (ValueError, KeyError, TypeError):
            fine = tolerated = False
        if not fine and status not in {409, 422}:  # what a client may be told of its own request
            self.witness.defects.append(f"{what}: {status} {text[:300]}")
        raise Refused(text[:300], for_now=tolerated or status >= 500)


class Told:
    """What a client is told by one stream."""

    def __init__(self, witness: Witness, question: str | None, tolerated: frozenset[str]) -> None:
        self._witness = witness
        self._tolerated = tolerated
        self._question = question
        self._text = ""
        self._ended = False

    def take(self, name: str, data: dict[str, Any]) -> None:
        """Note down an event."""
        witness = self._witness
        if name == "turn_started" and self._question is not None:
            witness.questions.append(self._question)
        elif name == "content_delta":
            self._text += data["content"]
        elif name in {"tool_call", CONFIRM, "agent_start"}:
            self._text = ""  # it belongs to a message that was saved before
        elif name == "tool_result":
            witness.results.append(data["tool_call_id"])
        elif name == "message_complete":
            witness.answers[data["message_id"]] = data["content"]
            self._ended = True
        elif name == "cancelled":
            self._text = data["content"]
        elif (
            name == "error"
            and data["code"] not in self._tolerated
            and not data["details"]["retryable"]
        ):
            witness.defects.append(f"stream: {data}")

    def end(self) -> None:
        """Note down what was received of an answer that broke off."""
        if self._text.strip() and not self._ended:
            self._witness.texts.append(self._text.strip())


# --- What clients do --------------------------------------------------------------------------


def script(*messages: Any, **keys: Any) -> str:
    """Return a message that scripts its answer and is like no other."""
    entries = [m if isinstance(m, dict) else {"text_message": {"text": m}} for m in messages]
    block = {"messages": entries, "per_request": True, "words_per_second": 60, **keys}
    marker = f"question {next(_numbers)} "
    return f"{marker}<|instruction_start|>{json.dumps(block)}<|instruction_end|>"


def words(chance: random.Random) -> list[str]:
    """Return the pieces of an answer like no other."""
    return [f"word{next(_numbers)}-{n} " for n in range(chance.randrange(2, 40))]


def note_call(witness: Witness, name: str = "note") -> dict[str, Any]:
    """Return a call of the tool that writes a line down, which is like no other."""
    text = f"{witness.session_id}-{next(_numbers)}"
    witness.notes.append(text)
    return {"name": name, "args": {"text": text}}


def talk(client: FaultyServerClient) -> None:
    """Stream an answer with two rounds of tools."""
    witness = client.witness
    rounds = [{"tool_call": [note_call(witness), note_call(witness)]} for _ in range(2)]
    for _ in client.stream({"message": script(*rounds, words(client.chance))}):
        pass


def approve(client: FaultyServerClient) -> None:
    """Be asked about two calls, allow one and deny the other, and read on."""
    witness = client.witness
    client.ask(
        "PATCH",
        f"/sessions/{witness.session_id}",
        json={"tool_settings": {"tools": ["note"], "execution_policy": "always_confirm"}},
    )
    calls = {"tool_call": [note_call(witness), note_call(witness)]}
    approved = itertools.cycle([True, False])
    for name, data in client.stream({"message": script(calls, words(client.chance))}):
        if name == CONFIRM:
            body = {"confirmation_id": data["confirmation_id"], "approved": next(approved)}
            path = f"/chat/{witness.session_id}/confirm-tool"
            for _ in range(client.chance.randrange(1, 3)):  # a nervous person clicks twice
                answer_until_taken(client, path, body)


def answer_until_taken(client: FaultyServerClient, path: str, body: dict[str, Any]) -> None:
    """Answer a question; the turn waits for it, so a server that can't take it is asked again."""
    for _ in range(400):
        try:
            client.ask("POST", path, json=body)
        except Refused as refused:
            if not refused.for_now:
                return
            time.sleep(0.05)
        else:
            return


def delegate(client: FaultyServerClient) -> None:
    """Let an agent use its tools."""
    witness = client.witness
    client.ask(
        "PATCH",
        f"/sessions/{witness.session_id}",
        json={"agent_settings": {"enabled_agents": ["scribe"]}},
    )
    work = {"tool_call": [note_call(witness)]}
    instruction = script("1. Write it down.", work, "It is written.")
    call = {"name": "agent", "args": {"agent": "scribe", "instruction": instruction}}
    for _ in client.stream({"message": script({"tool_call": [call]}, words(client.chance))}):
        pass


def cancel(client: FaultyServerClient) -> None:
    """Stop an answer in the middle, from another connection."""
    path = f"/chat/{client.witness.session_id}/cancel"
    after = client.chance.randrange(2, 20)
    for number, _ in enumerate(client.stream({"message": script(words(client.chance))})):
        if number == after:
            with suppress(Refused):
                client.ask("POST", path)


def retry(client: FaultyServerClient) -> None:
    """Send the same request under one key until it is answered."""
    witness = client.witness
    call = {"tool_call": [note_call(witness)]}
    message = script(call, words(client.chance))
    headers = {"Idempotency-Key": f"key-{next(_numbers)}"}
    for _ in range(40):
        try:
            path = f"/chat/{witness.session_id}"
            answer = client.ask("POST", path, json={"message": message}, headers=headers).json()
        except (httpx.TransportError, Refused):
            time.sleep(0.05)
            continue
        witness.questions.append(message)
        if "message" not in answer:  # a call may have run, and nobody was there to be asked
            return
        if not answer["message"].get("cancelled"):
            witness.answers[answer["message"]["message_id"]] = answer["message"]["content"]
        return


def regenerate(client: FaultyServerClient) -> None:
    """Have an answer, and ask for another one; both must be there afterwards."""
    message = script(words(client.chance), words(client.chance), words(client.chance))
    for _ in client.stream({"message": message}):
        pass
    for _ in client.stream({}):
        pass


def fork(client: FaultyServerClient) -> None:
    """Copy the session while it answers, and again afterwards."""
    witness = client.witness
    path = f"/sessions/{witness.session_id}/fork"
    after = client.chance.randrange(1, 10)

    def copy() -> None:
        with suppress(Refused):
            made = client.ask("POST", path, json={}).json()
            witness.made[made["session_id"]] = made["message_count"]

    for number, _ in enumerate(client.stream({"message": script(words(client.chance))})):
        if number == after:
            copy()
    copy()


def summarize(client: FaultyServerClient) -> None:
    """Ask for a summary beside an answer."""
    for _ in client.stream({"message": script(words(client.chance))}):
        pass
    client.ask("POST", f"/sessions/{client.witness.session_id}/summarize")


SCENARIOS: list[Callable[[FaultyServerClient], None]] = [
    talk,
    approve,
    delegate,
    cancel,
    retry,
    regenerate,
    fork,
    summarize,
]


def run(client: FaultyServerClient, scenario: Callable[[FaultyServerClient], None]) -> None:
    """Do what a scenario does until it ends or the server breaks under it."""
    try:
        scenario(client)
    except (httpx.TransportError, Refused):
        pass
    finally:
        client.close()


class HealthWatch(threading.Thread):
    """Asks for the server's health all the time; it must be well or not there at all."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.defects: list[str] = []
        self._url = url
        self._ended = threading.Event()

    def run(self) -> None:
        with httpx.Client(trust_env=False, verify=NO_TLS, timeout=30) as http:
            while not self._ended.wait(0.05):
                with suppress(httpx.TransportError):
                    answer = http.get(f"{self._url}/api/v1/health")
                    if answer.status_code != 200:
                        self.defects.append(f"health: {answer.status_code} {answer.text[:200]}")

    def stop(self) -> list[str]:
        """End it, and return what must not have been."""
        self._ended.set()
        self.join()
        return self.defects
