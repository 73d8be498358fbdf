// The AI SDK, with its provider for OpenAI: Responses.
import { createOpenAI } from "@ai-sdk/openai";
import { APICallError, generateText, isStepCount, Output, streamText, tool } from "ai";
import { z } from "zod";
import { assert, calls, collect, MODEL, rounds, run, script, thinking, url } from "./checks.mjs";

const openai = createOpenAI({ baseURL: url, apiKey: "any" });
const model = openai.responses(MODEL);
const ours = (requireApproval) => ({
  mochi: openai.tools.mcp({
    serverLabel: "mochi",
    serverUrl: url,
    allowedTools: ["add"],
    requireApproval,
  }),
});
const adding = (text) => rounds(calls(["add", { a: 1, b: 2 }]), text);
const reasons = { openai: { forceReasoning: true, reasoningSummary: "auto", reasoningEffort: "low" } };

await run({
  async "an answer"() {
    const answer = await generateText({ model, prompt: script(["Hello!"]) });
    assert.equal(answer.text, "Hello!");
    assert.equal(answer.finishReason, "stop");
    assert(answer.usage.inputTokens > 0 && answer.usage.outputTokens > 0);
  },

  async "a stream with reasoning and usage"() {
    const result = streamText({
      model,
      prompt: script([thinking(["Be ", "polite."], ["Good ", "morning!"])]),
      providerOptions: reasons,
    });
    const parts = await collect(result.stream);
    const joined = (type) =>
      parts.filter((part) => part.type === type).map((part) => part.text ?? part.delta).join("");
    assert.equal(joined("reasoning-delta"), "Be polite.");
    assert.equal(joined("text-delta"), "Good morning!");
    assert.equal(await result.finishReason, "stop");
    assert((await result.usage).totalTokens > 0);
  },

  async "tools of the client in several steps"() {
    const asked = [];
    const weather = (city) => ["get_weather", { city }];
    const answer = await generateText({
      model,
      prompt: rounds(calls(weather("Paris"), weather("Oslo")), calls(weather("Rome")), "Sunny."),
      tools: {
        get_weather: tool({
          description: "Get the weather.",
          inputSchema: z.object({ city: z.string() }),
          execute: async ({ city }) => asked.push(city) && "sunny",
        }),
      },
      stopWhen: isStepCount(5),
    });
    assert.equal(answer.text, "Sunny.");
    assert.deepEqual(asked.sort(), ["Oslo", "Paris", "Rome"]);
  },

  async "an answer of a given form"() {
    const answer = await generateText({
      model,
      prompt: "Who are you?",
      output: Output.object({ schema: z.object({ name: z.string() }) }),
    });
    assert.equal(typeof answer.output.name, "string");
  },

  async "a tool of the server"() {
    const result = streamText({ model, prompt: adding("Three."), tools: ours("never") });
    const parts = await collect(result.stream);
    const failed = parts.filter((part) => part.type === "error");
    assert.deepEqual(failed, []);
    assert.equal(await result.text, "Three.");
    const called = parts.find((part) => part.type === "tool-call");
    assert.equal(called.providerExecuted, true);
    assert.equal(called.dynamic, true);
    const returned = parts.find((part) => part.type === "tool-result");
    assert.equal(returned.output.output, "3");
  },

  async "a tool of the server that asks first"() {
    const tools = ours("always");
    const messages = [{ role: "user", content: adding("Three.") }];
    const first = await generateText({ model, messages, tools });
    const asked = first.content.find((part) => part.type === "tool-approval-request");
    assert(asked, JSON.stringify(first.content));
    const answer = { approvalId: asked.approvalId, approved: true, providerExecuted: true };
    messages.push(...first.response.messages, {
      role: "tool",
      content: [{ type: "tool-approval-response", ...answer }],
    });
    const second = await generateText({ model, messages, tools });
    assert.equal(second.text, "Three.");
  },

  async "a tool of the server that asks first, after the previous response"() {
    const tools = ours("always");
    const first = await generateText({ model, prompt: adding("As you like."), tools });
    const asked = first.content.find((part) => part.type === "tool-approval-request");
    const answer = { approvalId: asked.approvalId, approved: false, providerExecuted: true };
    const second = await generateText({
      model,
      messages: [
        ...first.response.messages,
        { role: "tool", content: [{ type: "tool-approval-response", ...answer }] },
      ],
      tools,
      providerOptions: { openai: { previousResponseId: first.response.id } },
    });
    assert.equal(second.text, "As you like.");
  },

  async "an error in the middle of a stream"() {
    const result = streamText({
      model,
      prompt: script([["One", " two", " three"]], { error_line: "runner died" }),
      onError: () => {},
    });
    const parts = await collect(result.stream);
    assert(parts.some((part) => part.type === "text-delta"));
    const failed = parts.find((part) => part.type === "error");
    assert(failed || (await result.finishReason) === "error");
  },

  async "a model that is not there is asked for once"() {
    const failed = await generateText({ model: openai.responses("no-such-model"), prompt: "x" }).catch(
      (error) => error,
    );
    assert(APICallError.isInstance(failed), String(failed));
    assert.equal(failed.statusCode, 404);
  },
});
