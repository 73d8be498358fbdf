"""The code in docs/front-end.md runs as it stands, also when the connection breaks."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mochi_project.management.example_data import copy_examples
from tests.functional.conftest import Server, StartServer
from tests.functional.docs.code_of_guide import WriteFiles, run

ROOT = Path(__file__).parents[3]


class CuttingProxy:
    """Relays to a server, and cuts every answer off after so many bytes, until there is no more.

    Each number in ``cuts`` is for one connection; connections after those are left alone.
    """

    def __init__(self, url: str, cuts: list[int]) -> None:
        self.cut = 0
        self._upstream = url.rpartition("/")[2].split(":")
        self._cuts = cuts
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        host, port = self._upstream
        with client, socket.create_connection((host, int(port))) as upstream:
            threading.Thread(target=self._copy, args=(client, upstream), daemon=True).start()
            left = -1
            while data := upstream.recv(65536):
                if left < 0 and b"text/event-stream" in data and self._cuts:
                    left = self._cuts.pop(0)
                if 0 <= left < len(data):
                    client.sendall(data[:left])
                    client.shutdown(socket.SHUT_RDWR)
                    self.cut += 1
                    return
                client.sendall(data)
                left -= len(data) if left >= 0 else 0

    def _copy(self, client: socket.socket, upstream: socket.socket) -> None:
        try:
            while data := client.recv(65536):
                upstream.sendall(data)
            upstream.shutdown(socket.SHUT_WR)
        except OSError:
            return  # the other direction has ended already


@pytest.fixture(scope="module")
def server(start_once: StartServer) -> Server:
    """Return a server where what is sent during a turn waits, if its request does not say."""
    return start_once(MOCHI_WHEN_BUSY="queue")


@pytest.fixture
def proxy(server: Any) -> Iterator[CuttingProxy]:
    # The first one ends before the first event, the others within one.
    proxy = CuttingProxy(server.url, [10, 700, 500])
    yield proxy
    proxy.close()


ANSWER = (
    "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut"
    "\n\nGood morning!\n"
)


def test_the_python_code_chats(server: Any, write_files: WriteFiles) -> None:
    assert run(write_files(server.url), sys.executable, "chat.py") == ANSWER


def test_the_python_code_survives_lost_connections(
    proxy: CuttingProxy, write_files: WriteFiles
) -> None:
    assert run(write_files(proxy.url), sys.executable, "chat.py") == ANSWER
    assert proxy.cut == 3


@pytest.mark.interop
def test_the_browser_code_chats(server: Any, write_files: WriteFiles, node: str) -> None:
    assert run(write_files(server.url), node, "page.mjs") == ANSWER


@pytest.mark.interop
def test_the_browser_code_survives_lost_connections(
    proxy: CuttingProxy, write_files: WriteFiles, node: str
) -> None:
    assert run(write_files(proxy.url), node, "page.mjs") == ANSWER
    assert proxy.cut == 3


SILENT = """
const { setTimeout } = globalThis;
globalThis.setTimeout = (act, wait) => setTimeout(act, wait === 45_000 ? 100 : wait);
const { chat } = await import("./mochi.mjs");
const silent = (id, event) => {
  const bytes = new TextEncoder().encode(`id: ${id}\\nevent: ${event}\\ndata: {}\\n\\n`);
  return new Response(new ReadableStream({ start: (stream) => stream.enqueue(bytes) }));
};
const error = { code: "SHUTTING_DOWN", message: "It restarts.", details: { retryable: true } };
const answers = [
  () => new Response("<h1>Bad Gateway</h1>", { status: 502 }),
  () => silent("t:1", "content_delta"),
  () => Response.json({ error }, { status: 503 }),
  () => silent("t:2", "done"),
];
globalThis.fetch = async () => answers.shift()();
for await (const { id } of chat("a", "Hello")) console.log(id);
"""


@pytest.mark.interop
def test_the_browser_code_survives_a_silent_connection_and_a_restart(
    server: Any, write_files: WriteFiles, node: str
) -> None:
    folder = write_files(server.url)
    (folder / "silent.mjs").write_text(SILENT)
    assert run(folder, node, "silent.mjs").split() == ["t:1", "t:2"]


EVENT_SOURCE = """
import { createParser } from "eventsource-parser";

globalThis.document = Object.assign(new EventTarget(), { hidden: false });

// What browsers have: it reconnects, and resumes.
globalThis.EventSource = class extends EventTarget {
  #aborting = new AbortController();
  constructor(url) {
    super();
    this.#read(url);
  }
  close() {
    this.#aborting.abort();
  }
  async #read(url) {
    let lastId = "";
    while (!this.#aborting.signal.aborted) {
      try {
        const headers = { "Last-Event-ID": lastId };
        const response = await fetch(url, { headers, signal: this.#aborting.signal });
        const parser = createParser({
          onEvent: ({ id, event, data }) => {
            lastId = id;
            this.dispatchEvent(new MessageEvent(event, { data, lastEventId: id }));
          },
        });
        const decoder = new TextDecoder();
        for await (const bytes of response.body) parser.feed(decoder.decode(bytes, { stream: true }));
      } catch {} // as when the connection breaks
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
};
"""
TWO_TABS = """
import "./event_source.mjs";
import { call, chat } from "./mochi.mjs";
import { followSessions } from "./sidebar.mjs";

const tabs = [[], []];
let news = () => {};
const show = (tab) => (sessions) => {
  tabs[tab] = sessions;
  news();
};
const stops = [followSessions(show(0)), followSessions(show(1))];
const both = async (holds) => {
  while (!tabs.every(holds)) await new Promise((resolve) => (news = resolve));
};
const { session_id } = await (await call("/sessions", { body: { model: "qwen3:14b" } })).json();
const shows = (wanted) => (tab) =>
  tab.some((one) => one.session_id === session_id && one.title === wanted);
const hide = (hidden) => {
  document.hidden = hidden;
  document.dispatchEvent(new Event("visibilitychange"));
};
await both((tab) => tab.some((one) => one.session_id === session_id));
hide(true);
for await (const _ of chat(session_id, "Good morning!"));
const body = { title: "Morning" };
await call(`/sessions/${session_id}`, { method: "PATCH", body });
if (tabs.some(shows("Morning"))) throw new Error("a hidden tab holds its connection");
hide(false);
await both(shows("Morning"));
await call(`/sessions/${session_id}`, { method: "DELETE" });
await both((tab) => !tab.some((one) => one.session_id === session_id));
stops.forEach((stop) => stop());
console.log("agreed");
"""


@pytest.mark.interop
def test_two_sidebars_agree_without_polling(
    server: Any, write_files: WriteFiles, node: str
) -> None:
    folder = write_files(server.url)
    (folder / "event_source.mjs").write_text(EVENT_SOURCE)
    (folder / "tabs.mjs").write_text(TWO_TABS)
    assert run(folder, node, "tabs.mjs") == "agreed\n"


@pytest.fixture
def asking(server: Any, script: Callable[..., str]) -> Iterator[str]:
    """Return a session whose turn has said something, called a tool and waits for a person."""
    copy_examples(server.data_dir)
    chat = server.chat()
    settings = {"tools": ["add_numbers"], "execution_policy": "always_confirm"}
    session_id = chat.new_session(tool_settings=settings)
    call = {"name": "add_numbers", "args": {"a": 1, "b": 2}}
    message = script({"text_message": {"text": "Let me see.\n"}}, {"tool_call": [call]})
    body = {"message": message, "detached": True}
    with chat.http.stream("POST", f"/chat/{session_id}/stream", json=body) as answer:
        for line in answer.iter_lines():
            if line == "event: tool_call_confirmation_required":
                break
    yield session_id
    chat.http.post(f"/chat/{session_id}/cancel")


RESUMED = """
const stream = (...events) => {
  const lines = events.map(([event, data], index) =>
    `id: t:${index + 1}\\nevent: ${event}\\ndata: ${JSON.stringify(data)}\\n\\n`);
  return new Response(lines.join(""));
};
const text = (content) => ["content_delta", { content }];
const resumed = (keeps) => ["turn_resumed", { keeps, message_id: "two", discarded: ["one"] }];
const ends = ["done", {}];
const answers = [
  () => Response.json({ session_id: "a" }),
  () => stream(text("Half"), resumed("text"), text(" a"), resumed("results"), text("Whole."), ends),
];
globalThis.fetch = async () => answers.shift()();
await import("./page.mjs");
"""


@pytest.mark.interop
def test_the_browser_code_goes_on_with_what_a_restart_keeps(
    server: Any, write_files: WriteFiles, node: str
) -> None:
    folder = write_files(server.url)
    (folder / "resumed.mjs").write_text(RESUMED)
    assert run(folder, node, "resumed.mjs") == "Whole.\n"


@pytest.mark.interop
def test_a_message_that_waits_is_changed_and_answered(
    server: Any, asking: str, write_files: WriteFiles, node: str
) -> None:
    assert run(write_files(server.url), node, "queue.mjs", asking) == "queue: And tomorrow?\n"
    chat = server.chat()
    (waiting,) = chat.http.get(f"/chat/{asking}/inbox").json()["messages"]
    (question,) = chat.http.get(f"/chat/{asking}/confirmations").json()["confirmations"]
    body = {"confirmation_id": question["confirmation_id"], "approved": True}
    chat.http.post(f"/chat/{asking}/confirm-tool", json=body).raise_for_status()
    answer = chat.http.get(f"/chat/{asking}/stream", params={"queued": waiting["message_id"]})
    assert "event: done" in answer.text
    assert [each["content"] for each in chat.messages(asking)][-2] == "And tomorrow?"


NEW_SESSIONS = {
    "chat.py": 'client.post("/sessions", json={"model": "qwen3:14b"}).raise_for_status().json()',
    "page.mjs": 'await (await call("/sessions", { body: { model: "qwen3:14b" } })).json()',
}
SENT = """
import sys
import httpx
sys.path.insert(0, sys.argv[2])
from chat import Mochi, show
with httpx.Client(base_url=sys.argv[3], timeout=60) as http:
    mochi = Mochi(http, sys.argv[1])
    show(mochi, mochi.chat("Good morning!"))
"""


@pytest.fixture(
    params=["chat.py", pytest.param("page.mjs", marks=pytest.mark.interop), "python-client"]
)
def sending(
    request: pytest.FixtureRequest, server: Any, asking: str, write_files: WriteFiles
) -> list[str]:
    """Return the command with which a client says "Good morning!" in the session."""
    if request.param == "python-client":
        example = str(ROOT / "examples/python-client")
        return [sys.executable, "-c", SENT, asking, example, f"{server.url}/api/v1"]
    program = sys.executable if request.param == "chat.py" else request.getfixturevalue("node")
    path = write_files(server.url) / request.param
    code, new_session = path.read_text(), NEW_SESSIONS[request.param]
    assert new_session in code
    path.write_text(code.replace(new_session, f'{{"session_id": "{asking}"}}'))
    return [program, str(path)]


def test_each_client_gets_the_answer_to_what_it_sent_during_another_turn(
    server: Any, asking: str, sending: list[str]
) -> None:
    chat = server.chat()
    (question,) = chat.http.get(f"/chat/{asking}/confirmations").json()["confirmations"]
    body = {"confirmation_id": question["confirmation_id"], "approved": True}
    client = subprocess.Popen(sending, stdout=subprocess.PIPE, text=True)
    try:
        while not chat.http.get(f"/chat/{asking}/inbox").json()["messages"]:
            assert client.poll() is None, "it gave up"
            time.sleep(0.05)
        chat.http.post(f"/chat/{asking}/confirm-tool", json=body).raise_for_status()
        shown, _ = client.communicate(timeout=60)
    finally:
        client.kill()
        client.wait()
    assert (client.returncode, shown) == (0, ANSWER)
    said = [each["content"] for each in chat.messages(asking) if each["role"] == "user"]
    assert said[1:] == ["Good morning!"]


TOLD = """Let me see.(May add_numbers run with {"a":1,"b":2}?)
(add_numbers: 3.0)
lorem ipsum"""


@pytest.mark.interop
def test_a_reloaded_page_shows_everything_once_and_approves(
    server: Any, asking: str, write_files: WriteFiles, node: str
) -> None:
    shown = run(write_files(server.url), node, "reload.mjs", asking)
    assert shown.startswith("user: ")
    assert shown.count(TOLD) == 1, shown
    assert shown.count("assistant: ") == 0, "it is in the stream"
    again = run(write_files(server.url), node, "reload.mjs", asking)
    assert again.count("assistant: ") == 2
    assert "May add_numbers" not in again


def test_the_python_client_goes_on_in_mid_turn_and_approves(server: Any, asking: str) -> None:
    program = ROOT / "examples/python-client/chat.py"
    ended = subprocess.run(
        [sys.executable, program, server.url, "--session", asking],
        env={key: value for key, value in os.environ.items() if "proxy" not in key.lower()},
        input="y\nGood morning!\n\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    shown = ended.stdout
    assert shown.startswith("user: ")
    assert shown.count('Let me see.\nadd_numbers({"a": 1, "b": 2}) - may it run?') == 1
    assert shown.count("[add_numbers: 3.0]") == 1
    assert shown.count("> lorem ipsum") == 2, "it was asked, and asked again"
