"""The ledger of usage holds what clients were told: tools, cancels, errors and kills included.

The model server counts what it says; each turn's last event and the ledger have to agree with it.
"""

import json
import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import httpx
import psutil
import pytest

from tests.functional.conftest import read_events
from usage_app.ledger import Ledger

TURNS = int(os.environ.get("MOCHI_E2E_LEDGER_TURNS", "500"))
SEED = int(os.environ.get("MOCHI_E2E_LEDGER_SEED", "0")) or random.SystemRandom().randrange(10**6)
BATCH = 100
DOOMED = 10
CLIENTS = 8
ENDS = ["answer"] * 5 + ["cancel", "cancel", "error"]
PRICES = {"ollama:*": {"input_per_million": 1, "output_per_million": "2.5"}}
TOOL = '''
"""A tool."""

__all__ = ["twice"]


def twice(number: int) -> int:
    """Double a number.

    Args:
        number: The number.
    """
    return 2 * number
'''


class CountingModel:
    """Does what the user's message says, and counts the tokens of what it says to the end."""

    def __init__(self):
        self.counts = {}
        self._lock = threading.Lock()

    def __call__(self, answer):
        asked = [m["content"] for m in answer.messages if m["role"] == "user"][-1]
        plan = json.loads(asked)
        number = sum(message["role"] == "tool" for message in answer.messages)
        answer.say("Well", ".")
        if number < plan["rounds"]:
            call = {"function": {"name": "twice", "arguments": {"number": number}}}
            self._finish(answer, plan, number, tool_calls=[call])
        elif plan["end"] == "answer":
            self._finish(answer, plan, number)
        elif plan["end"] == "error":
            answer.chunk(b'{"error":"it broke"}\n')
            answer.raw(b"0\r\n\r\n")
        else:
            answer.wait_until_closed()

    def of(self, plan):
        """Return the tokens that were counted for a plan."""
        with self._lock:
            return self.counts.get(plan["n"], (0, 0, 0))

    def _finish(self, answer, plan, number, **said):
        sent, told = 100 + 7 * plan["n"], 3 + number
        with self._lock:
            calls, before, after = self.counts.get(plan["n"], (0, 0, 0))
            self.counts[plan["n"]] = calls + 1, before + sent, after + told
        last = {"done_reason": "stop", "prompt_eval_count": sent, "eval_count": told}
        message = {"role": "assistant", "content": "", **said}
        line = {"model": "m", "message": message, "done": True, **last}
        answer.chunk(json.dumps(line).encode() + b"\n")
        answer.raw(b"0\r\n\r\n")


class Turn:
    """A turn as its client sees it."""

    def __init__(self, plan, session_id):
        self.plan = plan
        self.session_id = session_id
        self.turn_id = None
        self.last = None
        self.waits = threading.Event()

    def run(self, server):
        """Have the turn; return when it has ended, or its server has died."""
        chat = server.chat()
        body = {"message": json.dumps(self.plan)}
        said = 0
        try:
            with chat.stream(self.session_id, **body) as events:
                for event in events:
                    self.take(event)
                    if event.name == "content_delta":
                        said += event.data["content"].count(".")
                    if said > self.plan["rounds"] and not self.waits.is_set():
                        self.waits.set()
                        if self.plan["end"] == "cancel":
                            assert chat.cancel(self.session_id).status_code == 200
        except httpx.TransportError:
            assert self.plan["end"] == "kill"

    def take(self, event):
        if event.name == "turn_started":
            self.turn_id = event.data["turn_id"]
        if event.data.get("turn_usage"):
            self.last = event

    def pick_up(self, server):
        """Read how the turn has ended, once its server is there again."""
        with server.chat().http.stream("GET", f"/chat/{self.session_id}/stream") as answer:
            if answer.status_code != 200:
                return False
            for event in read_events(answer):
                self.take(event)
        return self.last is not None

    @property
    def told(self):
        """The tokens and the cost of its last event."""
        usage = self.last.data["turn_usage"]
        return (
            usage.get("input_tokens", 0),
            usage.get("output_tokens", 0),
            Decimal(usage.get("cost_usd", 0)),
        )


def recorded(ledger):
    """Return calls with tokens, tokens and cost of each turn in the ledger."""
    turns = {}
    for record in ledger.read_since({})[0]:
        calls, sent, told, cost = turns.setdefault(record.turn_id, (0, 0, 0, Decimal(0)))
        if record.estimated:  # clients were told nothing
            continue
        turns[record.turn_id] = (
            calls + (record.input is not None),
            sent + (record.input or 0),
            told + (record.output or 0),
            cost + (record.cost or 0),
        )
    return turns


def plans(chance, numbers):
    kinds = [(end, chance.randrange(3)) for end in (chance.choice(ENDS) for _ in numbers)]
    return [
        {"n": n, "rounds": rounds, "end": end}
        for n, (end, rounds) in zip(numbers, kinds, strict=True)
    ]


def run_batch(server, ledger, model, ordinary, doomed, eventually):
    """Have ordinary turns, then some that wait while all web processes are killed."""
    chat = server.chat()
    tools = {"tools": ["twice"], "execution_policy": "never_confirm"}
    turns = [Turn(plan, chat.new_session(tool_settings=tools)) for plan in ordinary]
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda turn: turn.run(server), turns))
    killed = [Turn(plan, chat.new_session(tool_settings=tools)) for plan in doomed]
    with ThreadPoolExecutor(len(killed)) as pool:
        running = [pool.submit(turn.run, server) for turn in killed]
        for turn in killed:
            assert turn.waits.wait(60)
        wanted = {turn.turn_id: turn.plan["rounds"] for turn in killed}
        eventually(
            lambda: all(recorded(ledger).get(turn, (0,))[0] == n for turn, n in wanted.items())
        )
        workers = server.web_processes
        for worker in workers:
            worker.kill()
        psutil.wait_procs(workers, timeout=60)
        for one in running:
            one.result(timeout=60)
    for turn in killed:
        eventually(lambda turn=turn: _picked_up(turn, server))
    return turns + killed


def _picked_up(turn, server):
    try:
        return turn.pick_up(server)
    except httpx.TransportError:  # its web processes are being started
        return False


def start_it(start, upstream):
    server = start("--workers", "2", MOCHI_OLLAMA_HOST=upstream.url)
    return server, Ledger(server.data_dir / ".mochi" / "usage")


def lay_out(directory):
    (directory / "tools").mkdir(parents=True)
    (directory / "tools" / "twice.py").write_text(TOOL)
    (directory / "prices.json").write_text(json.dumps(PRICES))


def check(server, ledger, model, turns, eventually):
    """Check that the model, the events and the ledger agree, by turn and in all."""
    for turn in turns:
        counted, (sent, told, cost) = model.of(turn.plan), turn.told
        assert (sent, told) == counted[1:], turn.plan
        assert cost == (sent + told * Decimal("2.5")) / 1_000_000, turn.plan
    expected = {turn.turn_id: (model.of(turn.plan)[0], *turn.told) for turn in turns}
    eventually(lambda: {each: recorded(ledger).get(each) for each in expected} == expected)
    report = server.chat().http.get("/usage", params={"group_by": "session"}).json()
    groups = {group["session_id"]: group for group in report["groups"]}
    for turn in turns:
        group = groups[turn.session_id]
        if not group["estimated_requests"]:
            assert (group["input_tokens"], group["output_tokens"]) == turn.told[:2]
    total = report["total"]
    estimated = [record for record in ledger.read_since({})[0] if record.estimated]
    assert total["estimated_requests"] == len(estimated)
    guessed = sum(record.input or 0 for record in estimated)
    assert total["input_tokens"] == sum(turn.told[0] for turn in turns) + guessed
    guessed_cost = sum(record.cost for record in estimated)
    assert Decimal(total["cost_usd"]) == sum(turn.told[2] for turn in turns) + guessed_cost


def one_run(start, directory, upstream, eventually, batches):
    lay_out(directory)
    model = upstream.behave = CountingModel()
    server, ledger = start_it(start, upstream)
    turns = []
    for ordinary, doomed in batches:
        turns += run_batch(server, ledger, model, ordinary, doomed, eventually)
    check(server, ledger, model, turns, eventually)
    assert {turn.last.name for turn in turns} == {"message_complete", "cancelled", "error"}


def test_the_ledger_and_the_events_say_the_same(start, tmp_path, upstream, eventually):
    ends = [("answer", 0), ("answer", 2), ("cancel", 1), ("error", 1), ("cancel", 0)]
    ordinary = [{"n": n, "rounds": rounds, "end": end} for n, (end, rounds) in enumerate(ends)]
    doomed = [{"n": 10 + rounds, "rounds": rounds, "end": "kill"} for rounds in (1, 2)]
    one_run(start, tmp_path / "data", upstream, eventually, [(ordinary, doomed)])


@pytest.mark.soak
@pytest.mark.timeout(120 + 2 * TURNS)
def test_the_ledger_of_many_turns_is_what_clients_were_told(start, tmp_path, upstream, eventually):
    print(f"MOCHI_E2E_LEDGER_SEED={SEED}")
    chance = random.Random(SEED)
    batches = []
    for begin in range(0, TURNS, BATCH):
        split = min(begin + BATCH - DOOMED, TURNS)
        ordinary = plans(chance, range(begin, split))
        doomed = [
            {"n": n, "rounds": 1 + chance.randrange(2), "end": "kill"}
            for n in range(split, min(begin + BATCH, TURNS))
        ]
        batches.append((ordinary, doomed))
    one_run(start, tmp_path / "data", upstream, eventually, batches)
