// The official `openai` package, and chat completions.
import OpenAI, { APIError, BadRequestError, NotFoundError } from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import { assert, calls, collect, MODEL, rounds, run, script, thinking, url } from "./checks.mjs";

const client = new OpenAI({ baseURL: url, apiKey: "any" });
const completions = client.chat.completions;
const user = (content) => [{ role: "user", content }];
const WEATHER = {
  type: "function",
  function: {
    name: "get_weather",
    description: "Get the weather.",
    parameters: { type: "object", properties: { city: { type: "string" } } },
  },
};
const PARIS = ["get_weather", { city: "Paris" }];
const OSLO = ["get_weather", { city: "Oslo" }];

await run({
  async "models are listed, and got by names with slashes and colons"() {
    const listed = [];
    for await (const model of client.models.list()) listed.push(model.id);
    assert(listed.includes(MODEL));
    assert(listed.includes("agent:scribe"));
    for (const name of [MODEL, "openrouter:qwen/qwen3-14b", "agent:scribe"])
      assert.equal((await client.models.retrieve(name)).id, name);
    await assert.rejects(client.models.retrieve("no/such:model"), NotFoundError);
  },

  async "an answer"() {
    const answer = await completions.create({ model: MODEL, messages: user(script(["Hello!"])) });
    assert.equal(answer.choices[0].message.content, "Hello!");
    assert.equal(answer.choices[0].finish_reason, "stop");
    assert.equal(answer.object, "chat.completion");
    assert.equal(answer.model, MODEL);
    assert(answer.id.startsWith("chatcmpl-"));
    assert(answer.usage.prompt_tokens > 0 && answer.usage.completion_tokens > 0);
    assert(answer._request_id);
  },

  async "a stream, with its usage at the end"() {
    const stream = await completions.create({
      model: MODEL,
      messages: user(script([["Hel", "lo", "!"]])),
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks = await collect(stream);
    const last = chunks.pop();
    assert.deepEqual(last.choices, []);
    assert(last.usage.total_tokens > 0);
    assert(chunks.every((chunk) => chunk.usage === null));
    assert.equal(new Set([last, ...chunks].map((chunk) => chunk.id)).size, 1);
    assert.equal(chunks.map((chunk) => chunk.choices[0].delta.content ?? "").join(""), "Hello!");
    const ends = chunks.map((chunk) => chunk.choices[0].finish_reason).filter(Boolean);
    assert.deepEqual(ends, ["stop"]);
  },

  async "the stream helper, with reasoning"() {
    const stream = completions.stream({
      model: MODEL,
      messages: user(script([thinking("Be polite.", "Good morning!")])),
      reasoning_effort: "low",
    });
    const reasoning = [];
    stream.on("chunk", (chunk) => {
      const delta = chunk.choices[0]?.delta ?? {};
      assert.equal(delta.reasoning_content, delta.reasoning);
      reasoning.push(delta.reasoning_content ?? "");
    });
    assert.equal(await stream.finalContent(), "Good morning!");
    assert.equal(reasoning.join(""), "Be polite.");
  },

  async "an answer of a given form"() {
    const Person = z.object({ name: z.string(), age: z.number() });
    const answer = await completions.parse({
      model: MODEL,
      messages: user("Who are you?"),
      response_format: zodResponseFormat(Person, "person"),
    });
    const { parsed } = answer.choices[0].message;
    assert.equal(typeof parsed.name, "string");
    assert.equal(typeof parsed.age, "number");
  },

  async "two calls of tools at once, and their results"() {
    const messages = user(rounds(calls(PARIS, OSLO), "Sunny in both."));
    const first = await completions.create({ model: MODEL, messages, tools: [WEATHER] });
    assert.equal(first.choices[0].finish_reason, "tool_calls");
    const { message } = first.choices[0];
    assert.deepEqual(
      message.tool_calls.map((call) => JSON.parse(call.function.arguments).city),
      ["Paris", "Oslo"],
    );
    messages.push(message);
    for (const call of message.tool_calls)
      messages.push({ role: "tool", tool_call_id: call.id, content: "sunny" });
    const second = await completions.create({ model: MODEL, messages, tools: [WEATHER] });
    assert.equal(second.choices[0].message.content, "Sunny in both.");
    await assert.rejects(
      completions.create({ model: MODEL, messages: messages.slice(0, 3), tools: [WEATHER] }),
      BadRequestError,
    );
  },

  async "the runner of tools, streamed"() {
    const asked = [];
    const runner = completions.runTools({
      model: MODEL,
      stream: true,
      messages: user(rounds(calls(PARIS), calls(OSLO), "Sunny, and rain.")),
      tools: [
        {
          type: "function",
          function: {
            ...WEATHER.function,
            parse: JSON.parse,
            function: ({ city }) => asked.push(city) && "sunny",
          },
        },
      ],
    });
    assert.equal(await runner.finalContent(), "Sunny, and rain.");
    assert.deepEqual(asked, ["Paris", "Oslo"]);
  },

  async "an error in the middle of a stream"() {
    const stream = await completions.create({
      model: MODEL,
      messages: user(script([["One", " two", " three"]], { error_line: "runner died" })),
      stream: true,
    });
    const seen = [];
    const failure = await (async () => {
      for await (const chunk of stream) seen.push(chunk.choices[0]?.delta.content ?? "");
    })().catch((error) => error);
    assert(failure instanceof APIError);
    assert.match(failure.message, /runner died/);
    assert(seen.join("").startsWith("One"));
  },

  async "a model that is not there, and what can't be done"() {
    const messages = user("x");
    const missing = await completions
      .create({ model: "no-such-model", messages })
      .catch((error) => error);
    assert(missing instanceof NotFoundError);
    assert.equal(missing.code, "model_not_found");
    assert(missing.requestID);
    const several = await completions
      .create({ model: MODEL, messages, n: 2 })
      .catch((error) => error);
    assert(several instanceof BadRequestError);
    assert.equal(several.param, "n");
  },

  async "an agent as the model"() {
    const answer = await completions.create({
      model: "agent:scribe",
      messages: user(rounds("1. Note it.", calls(["note", { text: "milk" }]), "Noted.")),
    });
    assert.equal(answer.choices[0].message.content, "Noted.");
    assert.equal(answer.choices[0].finish_reason, "stop");
    assert.equal(answer.choices[0].message.tool_calls, undefined);
  },

  async "a stream that is left"() {
    const stream = await completions.create({
      model: MODEL,
      messages: user(script([["One", " two"]], { stall_after: 1, stall_seconds: 60 })),
      stream: true,
    });
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content) break;
    assert(stream.controller.signal.aborted);
  },
});
