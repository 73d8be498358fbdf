// The official `openai` package, and Responses.
import OpenAI, { BadRequestError, NotFoundError } from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import {
  assert, calls, collect, MODEL, rounds, run, script, thinking, until, url,
} from "./checks.mjs";

const client = new OpenAI({ baseURL: url, apiKey: "any" });
const { responses } = client;
const ask = (input, more = {}) => responses.create({ model: MODEL, input, ...more });
const WEATHER = {
  type: "function",
  name: "get_weather",
  description: "Get the weather.",
  parameters: { type: "object", properties: { city: { type: "string" } } },
  strict: false,
};
const ADD = { type: "mcp", server_label: "mochi", allowed_tools: ["add"] };
const adding = (...texts) => rounds(calls(["add", { a: 1, b: 2 }]), ...texts);
const textOf = (events) =>
  events
    .filter((event) => event.type === "response.output_text.delta")
    .map((event) => event.delta)
    .join("");
const outputOf = (response, type) => response.output.filter((item) => item.type === type);

await run({
  async "an answer, and the next one after it"() {
    const first = await ask(script(["Hello!"]), { metadata: { project: "x" } });
    assert.equal(first.output_text, "Hello!");
    assert.equal(first.status, "completed");
    assert.deepEqual(first.metadata, { project: "x" });
    assert(first.usage.input_tokens > 0 && first.usage.output_tokens > 0);
    const second = await ask(script(["Again."]), { previous_response_id: first.id });
    assert.equal(second.output_text, "Again.");
    assert.equal(second.previous_response_id, first.id);
    const again = await responses.retrieve(second.id);
    assert.deepEqual(again.output, second.output);
    const said = await responses.inputItems.list(second.id);
    assert.equal(said.data.length >= 1, true);
  },

  async "another answer after an older response"() {
    const first = await ask(script(["One."]));
    await ask(script(["Two."]), { previous_response_id: first.id });
    const other = await ask(script(["Other."]), { previous_response_id: first.id });
    assert.equal(other.output_text, "Other.");
    assert.equal((await responses.retrieve(first.id)).output_text, "One.");
  },

  async "the stream helper, with reasoning"() {
    const stream = responses.stream({
      model: MODEL,
      input: script([thinking(["Be ", "polite."], ["Good ", "morning!"])]),
      reasoning: { effort: "low", summary: "auto" },
    });
    const reasoning = [];
    stream.on("response.reasoning_summary_text.delta", (event) => reasoning.push(event.delta));
    const final = await stream.finalResponse();
    assert.equal(final.output_text, "Good morning!");
    assert.equal(reasoning.join(""), "Be polite.");
    const [item] = outputOf(final, "reasoning");
    assert.equal(item.summary.map((part) => part.text).join(""), "Be polite.");
  },

  async "events are numbered without gaps, and end once"() {
    const events = await collect(await ask(script([["a", "b", "c"]]), { stream: true }));
    assert.deepEqual(
      events.map((event) => event.sequence_number),
      events.map((_, index) => index),
    );
    assert.equal(events[0].type, "response.created");
    assert.equal(events.at(-1).type, "response.completed");
    assert.equal(textOf(events), "abc");
  },

  async "an answer of a given form"() {
    const Person = z.object({ name: z.string() });
    const answer = await responses.parse({
      model: MODEL,
      input: "Who are you?",
      text: { format: zodTextFormat(Person, "person") },
    });
    assert.equal(typeof answer.output_parsed.name, "string");
  },

  async "calls of the client's tools, and their results"() {
    const weather = (city) => ["get_weather", { city }];
    const input = rounds(calls(weather("Paris"), weather("Oslo")), "Sunny in both.");
    const first = await ask(input, { tools: [WEATHER] });
    const asked = outputOf(first, "function_call");
    assert.deepEqual(
      asked.map((call) => JSON.parse(call.arguments).city),
      ["Paris", "Oslo"],
    );
    const results = asked.map(({ call_id }) => ({
      type: "function_call_output",
      call_id,
      output: "sunny",
    }));
    const next = { previous_response_id: first.id, tools: [WEATHER] };
    await assert.rejects(ask(results.slice(1), next), BadRequestError);
    assert.equal((await ask(results, next)).output_text, "Sunny in both.");
    // The same by a client that keeps the conversation itself.
    const whole = [{ role: "user", content: input }, ...first.output, ...results];
    const stateless = await ask(whole, { tools: [WEATHER], store: false });
    assert.equal(stateless.output_text, "Sunny in both.");
    await assert.rejects(
      ask("x", { previous_response_id: stateless.id }),
      (error) => error.code === "previous_response_not_found",
    );
  },

  async "a tool of the server"() {
    const tools = [{ ...ADD, require_approval: "never" }];
    const stream = responses.stream({ model: MODEL, input: adding("Three."), tools });
    const final = await stream.finalResponse();
    const [call] = outputOf(final, "mcp_call");
    assert.deepEqual(
      [call.name, call.server_label, JSON.parse(call.arguments), call.output, call.status],
      ["add", "mochi", { a: 1, b: 2 }, "3", "completed"],
    );
    assert.equal(final.output_text, "Three.");
  },

  async "a tool of the server that asks first"() {
    const tools = [{ ...ADD, require_approval: "always" }];
    const first = await ask(adding("Three."), { tools });
    const [asked] = outputOf(first, "mcp_approval_request");
    assert.deepEqual([asked.name, JSON.parse(asked.arguments)], ["add", { a: 1, b: 2 }]);
    assert.equal(first.status, "completed");
    const answer = { type: "mcp_approval_response", approval_request_id: asked.id, approve: true };
    const second = await ask([answer], { previous_response_id: first.id, tools });
    const [call] = outputOf(second, "mcp_call");
    assert.deepEqual([call.output, call.approval_request_id], ["3", asked.id]);
    assert.equal(second.output_text, "Three.");
  },

  async "a tool of the server that is denied"() {
    const tools = [{ ...ADD, require_approval: "always" }];
    const first = await ask(adding("As you like."), { tools });
    const [asked] = outputOf(first, "mcp_approval_request");
    const answer = { type: "mcp_approval_response", approval_request_id: asked.id, approve: false };
    const second = await ask([answer], { previous_response_id: first.id, tools });
    assert.equal(second.output_text, "As you like.");
  },

  async "in the background"() {
    const begun = await ask(script([["a", "b"]]), { background: true });
    assert(["queued", "in_progress"].includes(begun.status));
    const ended = await until(async () => {
      const found = await responses.retrieve(begun.id);
      return found.status === "completed" && found;
    });
    assert.equal(ended.output_text, "ab");
    const replayed = await collect(await responses.retrieve(begun.id, { stream: true }));
    assert.equal(textOf(replayed), "ab");
    const rest = await responses.retrieve(begun.id, { stream: true, starting_after: 3 });
    assert.deepEqual(await collect(rest), replayed.slice(4));
  },

  async "a connection that is lost in the middle"() {
    const pieces = ["one ", "two ", "three ", "four"];
    const stalled = script([pieces], { stall_after: 2, stall_seconds: 1 });
    const stream = await ask(stalled, { background: true, stream: true });
    const seen = [];
    for await (const event of stream) {
      seen.push(event);
      if (event.type === "response.output_text.delta") break;
    }
    const id = seen[0].response.id;
    const starting_after = seen.at(-1).sequence_number;
    const rest = await collect(await responses.retrieve(id, { stream: true, starting_after }));
    assert.equal(rest[0].sequence_number, starting_after + 1);
    assert.equal(textOf([...seen, ...rest]), pieces.join(""));
    assert.equal((await responses.retrieve(id)).output_text, pieces.join(""));
    const helper = await responses.stream({ response_id: id }).finalResponse();
    assert.equal(helper.output_text, pieces.join(""));
  },

  async "cancelling"() {
    const stalled = script([["a", "b"]], { stall_after: 1, stall_seconds: 60 });
    const begun = await ask(stalled, { background: true });
    const cancelled = await responses.cancel(begun.id);
    assert.equal(cancelled.status, "cancelled");
    assert.equal((await responses.retrieve(begun.id)).status, "cancelled");
  },

  async "conversations"() {
    const conversation = await client.conversations.create({ metadata: { topic: "x" } });
    const first = await ask(script(["One."]), { conversation: conversation.id });
    assert.equal(first.conversation.id, conversation.id);
    await ask(script(["Two."]), { conversation: conversation.id });
    const items = await collect(await client.conversations.items.list(conversation.id));
    assert.equal(items.filter((item) => item.role === "assistant").length, 2);
    await assert.rejects(
      ask("x", { conversation: conversation.id, previous_response_id: first.id }),
      BadRequestError,
    );
    assert.equal((await client.conversations.delete(conversation.id)).deleted, true);
  },

  async "deleting, and what was never there"() {
    const { id } = await ask(script(["x"]));
    await responses.delete(id);
    await assert.rejects(responses.retrieve(id), NotFoundError);
    const unknown = "resp_" + "0".repeat(30);
    await assert.rejects(responses.retrieve(unknown), NotFoundError);
  },

  async "an answer that fails"() {
    const failing = script([["One", " two", " three"]], { error_line: "runner died" });
    const final = await responses.stream({ model: MODEL, input: failing }).finalResponse();
    assert.equal(final.status, "failed");
    assert.match(final.error.message, /runner died/);
  },

  async "an agent as the model, whose tool asks first"() {
    const input = rounds("1. Note it.", calls(["note", { text: "milk" }]), "Noted.");
    const model = "agent:scribe";
    const first = await ask(input, { model });
    const [asked] = outputOf(first, "mcp_approval_request");
    assert.equal(asked.name, "note");
    const answer = { type: "mcp_approval_response", approval_request_id: asked.id, approve: true };
    const second = await ask([answer], { model, previous_response_id: first.id });
    assert.equal(second.output_text, "Noted.");
    const [call] = outputOf(second, "mcp_call");
    assert.equal(call.name, "scribe");
    assert.match(call.output, /noted milk/);
  },
});
