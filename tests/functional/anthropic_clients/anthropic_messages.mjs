// Anthropic's package for JavaScript.
import Anthropic from "@anthropic-ai/sdk";
import { assert, calls, MODEL, rounds, run, script, thinking, until, url } from "./checks.mjs";

const client = new Anthropic({ baseURL: url, apiKey: "any", maxRetries: 0 });
const asked = (content, more = {}) => ({
  model: MODEL,
  max_tokens: 1000,
  messages: [{ role: "user", content }],
  ...more,
});
const tools = [
  { name: "get_weather", input_schema: { type: "object", properties: { city: { type: "string" } } } },
];

await run({
  async "a message"() {
    const message = await client.messages.create(asked(script(["Hello!"])));
    assert.equal(message.content[0].text, "Hello!");
    assert.equal(message.stop_reason, "end_turn");
    assert(message._request_id.startsWith("req_"));
  },

  async "a stream with reasoning and calls"() {
    const stream = client.messages.stream(
      asked(script([thinking(["Be ", "kind."], "I look."), calls(["get_weather", { city: "Oslo" }])]), {
        tools,
        thinking: { type: "adaptive" },
      }),
    );
    const message = await stream.finalMessage();
    assert.deepEqual(message.content.map((block) => block.type), ["thinking", "text", "tool_use"]);
    assert.equal(message.content[0].thinking, "Be kind.");
    assert.deepEqual(message.content[2].input, { city: "Oslo" });
    assert(message.usage.input_tokens > 0 && message.usage.output_tokens > 0);
  },

  async "results of calls"() {
    const script_ = rounds(calls(["get_weather", { city: "Oslo" }]), "Sunny.");
    const first = await client.messages.create(asked(script_, { tools }));
    const result = { type: "tool_result", tool_use_id: first.content[0].id, content: "sunny" };
    const messages = [
      { role: "user", content: script_ },
      { role: "assistant", content: first.content },
      { role: "user", content: [result] },
    ];
    const last = await client.messages.create({ ...asked(""), messages, tools });
    assert.equal(last.content[0].text, "Sunny.");
  },

  async "tokens and models"() {
    const { model, messages } = asked("Hello!");
    assert((await client.messages.countTokens({ model, messages })).input_tokens > 0);
    const names = [];
    for await (const each of client.models.list({ limit: 1 })) names.push(each.id);
    assert(names.includes(MODEL) && names.length > 1);
  },

  async "errors have their classes"() {
    await assert.rejects(
      client.messages.create(asked("Hello!", { model: "nope:1b" })),
      Anthropic.NotFoundError,
    );
    await assert.rejects(client.messages.create(asked("Hello!", { max_tokens: 0 })), (error) =>
      error instanceof Anthropic.BadRequestError && error.type === "invalid_request_error",
    );
  },

  async "who leaves ends the answer"() {
    const stream = client.messages.stream(asked(script(["One"], { stall_after: 1, stall_seconds: 600 })));
    let text = "";
    stream.on("text", (piece) => (text += piece));
    stream.done().catch(() => {});
    await until(() => text === "One");
    stream.abort();
    await assert.rejects(stream.finalMessage(), Anthropic.APIUserAbortError);
  },
});
