"""The React hook in docs/front-end.md."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.functional.docs.code_of_guide import WriteFiles, run

REACT = """
let states = [], at = 0, shown, cleanup;
export let changes = 0;
export function useState(first) {
  const mine = at++;
  if (!(mine in states)) states[mine] = first;
  const set = (next) => {
    states[mine] = typeof next === "function" ? next(states[mine]) : next;
    changes++;
  };
  return [states[mine], set];
}
export function useRef(first) {
  return useState({ current: first })[0];
}
export function useEffect(effect, [dependency]) {
  if (shown === dependency) return;
  cleanup?.();
  shown = dependency;
  cleanup = effect();
}
export function render(hook, ...given) {
  at = 0;
  return hook(...given);
}
"""
HOOK = """
import { changes, render } from "react";
import { useMochiChat } from "./use-mochi-chat.mjs";

const page = () => render(useMochiChat, process.argv[2]);
const texts = () => page().messages.map(({ role, content }) => `${role}: ${content}`);
page();
while (changes < 5) await new Promise((resolve) => setTimeout(resolve, 5)); // it has loaded
await page().send("Good morning!");
console.log(JSON.stringify(texts()));
await page().send();
console.log(JSON.stringify(texts()));
console.log(page().answer);
"""
SWITCH = """
import { render } from "react";
import { useMochiChat } from "./use-mochi-chat.mjs";

const [, , first, second, script] = process.argv;
const until = async (holds) => {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5));
};
const page = (sessionId) => render(useMochiChat, sessionId);
const { send } = page(first);
const sending = send(script);
await until(() => page(first).answer);
await until(() => page(second).messages.length === 2);
await sending;
const { messages, answer } = page(second);
console.log(messages[0].content, answer);
console.log(await send("Too late").catch((error) => error.name));
process.exit(); // the turn of the first goes on
"""


@pytest.fixture
def react(node: str, tmp_path: Path) -> None:
    """Put a small React where the guide's code finds it."""
    react = tmp_path / "node_modules" / "react"
    react.mkdir()
    (react / "package.json").write_text('{"type": "module", "exports": "./index.js"}')
    (react / "index.js").write_text(REACT)


@pytest.mark.interop
@pytest.mark.usefixtures("react")
def test_the_hook_draws_nothing_of_a_session_into_another(
    server: Any, write_files: WriteFiles, node: str, tmp_path: Path, script: Callable[..., str]
) -> None:
    (tmp_path / "switch.mjs").write_text(SWITCH)
    chat = server.chat()
    first, second = chat.new_session(), chat.new_session()
    chat.http.post(f"/chat/{second}", json={"message": "Good morning!"}).raise_for_status()
    slow = script({"text_message": {"text": ["word "] * 100}}, words_per_second=20)
    shown = run(write_files(server.url), node, "switch.mjs", first, second, slow)
    assert shown == "Good morning! null\nAbortError\n"
    chat.http.post(f"/chat/{first}/cancel")


@pytest.mark.interop
@pytest.mark.usefixtures("react")
def test_the_hook_sends_and_answers_again(
    server: Any, write_files: WriteFiles, node: str, tmp_path: Path
) -> None:
    (tmp_path / "hook.mjs").write_text(HOOK)
    session_id = server.chat().new_session()
    first, second, answer = run(write_files(server.url), node, "hook.mjs", session_id).splitlines()
    assert json.loads(first)[0] == "user: Good morning!"
    assert json.loads(first)[1].startswith("assistant: lorem ipsum")
    assert len(json.loads(first)) == len(json.loads(second)) == 2
    assert answer == "null"
