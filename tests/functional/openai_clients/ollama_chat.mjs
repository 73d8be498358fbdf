// The official `ollama` package, at the address of Ollama.
import { Ollama } from "ollama";
import { assert, calls, collect, MODEL, rounds, run, script, thinking, url } from "./checks.mjs";

const client = new Ollama({ host: url.replace(/\/v1$/, "/ollama") });
const user = (content) => [{ role: "user", content }];
const WEATHER = {
  type: "function",
  function: {
    name: "get_weather",
    description: "Get the weather.",
    parameters: { type: "object", properties: { city: { type: "string" } } },
  },
};
const CITIES = ["Paris", "Oslo"];

await run({
  async "models and agents are listed, and shown"() {
    const { models } = await client.list();
    const names = models.map((model) => model.model);
    assert(names.includes(MODEL) && names.includes("agent:scribe"));
    assert((await client.show({ model: MODEL })).capabilities.includes("tools"));
    assert.match((await client.version()).version, /^[0-9.]+$/);
    assert((await client.ps()).models);
  },

  async "an answer"() {
    const answer = await client.chat({ model: MODEL, messages: user(script(["Hello!"])) });
    assert.equal(answer.message.content, "Hello!");
    assert.equal(answer.done_reason, "stop");
    assert(answer.eval_count > 0);
  },

  async "a stream with reasoning"() {
    const messages = user(script([thinking(["Be ", "polite."], ["Good ", "morning!"])]));
    const pieces = await collect(
      await client.chat({ model: MODEL, messages, think: true, stream: true }),
    );
    const join = (name) => pieces.map((piece) => piece.message[name] ?? "").join("");
    assert.equal(join("content"), "Good morning!");
    assert.equal(join("thinking"), "Be polite.");
    assert.deepEqual(pieces.map((piece) => piece.done).slice(-2), [false, true]);
  },

  async "two calls of tools at once, and their results"() {
    const asked = CITIES.map((city) => ["get_weather", { city }]);
    const messages = user(rounds(calls(...asked), "Sunny in both."));
    const { message } = await client.chat({ model: MODEL, messages, tools: [WEATHER] });
    const cities = message.tool_calls.map((call) => call.function.arguments.city);
    assert.deepEqual(cities, CITIES);
    messages.push(message, ...CITIES.map(() => ({ role: "tool", content: "sunny" })));
    const second = await client.chat({ model: MODEL, messages, tools: [WEATHER] });
    assert.equal(second.message.content, "Sunny in both.");
  },

  async "a text of a prompt, in a given form"() {
    const format = { type: "object", properties: { age: { type: "integer" } }, required: ["age"] };
    const answer = await client.generate({ model: MODEL, prompt: "How old are you?", format });
    assert.equal(typeof JSON.parse(answer.response).age, "number");
  },

  async "errors before and after the first piece"() {
    const nobody = { model: "nobody:it", messages: user("Hi") };
    await assert.rejects(client.chat(nobody), { status_code: 404 });
    await assert.rejects(client.pull({ model: "qwen3:8b" }), { status_code: 403 });
    const asked = script([["One", " two", " three"]], { error_line: "runner died" });
    const stream = await client.chat({ model: MODEL, messages: user(asked), stream: true });
    await assert.rejects(collect(stream), /runner died/);
  },

  async "an agent as the model"() {
    const messages = user(rounds("1. Note it.", calls(["note", { text: "milk" }]), "Noted."));
    const answer = await client.chat({ model: "agent:scribe", messages });
    assert.equal(answer.message.content, "Noted.");
  },
});
