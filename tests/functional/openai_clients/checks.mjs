// Runs checks one after the other and prints a line of JSON for each; the tests read them.
import assert from "node:assert/strict";

export const [url, agents] = process.argv.slice(2);
export const MODEL = "qwen3:14b";
export { assert };

// A user message that scripts its answer: texts, or whole entries of `messages`.
export function script(entries, keys = {}) {
  const messages = entries.map((entry) =>
    typeof entry === "string" || Array.isArray(entry) ? { text_message: { text: entry } } : entry,
  );
  const block = JSON.stringify({ messages, ...keys });
  return `<|instruction_start|>${block}<|instruction_end|>`;
}

// The same for a model that is asked several times: each request gets the next entry.
export const rounds = (...entries) => script(entries, { per_request: true });

export const calls = (...wanted) => ({
  tool_call: wanted.map(([name, args]) => ({ name, args })),
});

export const thinking = (reasoning, text) => ({ text_message: { text, reasoning } });

export async function collect(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

// Wait for a condition; there is no sleep that stands for one.
export async function until(condition) {
  for (;;) {
    const found = await condition();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export async function run(checks) {
  for (const [name, check] of Object.entries(checks)) {
    let error = null;
    try {
      await check();
    } catch (raised) {
      error = String(raised?.stack ?? raised);
    }
    console.log(JSON.stringify({ name, error }));
  }
}
