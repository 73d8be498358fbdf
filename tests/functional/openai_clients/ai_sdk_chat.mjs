// The AI SDK, with its provider for servers that are compatible with OpenAI's.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, isStepCount, Output, streamText, tool } from "ai";
import { z } from "zod";
import { assert, calls, collect, MODEL, rounds, run, script, thinking, url } from "./checks.mjs";

const mochi = createOpenAICompatible({
  name: "mochi",
  baseURL: url,
  apiKey: "any",
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const model = mochi(MODEL);
const tools = (asked) => ({
  get_weather: tool({
    description: "Get the weather.",
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => asked.push(city) && "sunny",
  }),
});

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
      reasoning: "low",
    });
    const parts = await collect(result.stream);
    const joined = (type) =>
      parts.filter((part) => part.type === type).map((part) => part.text ?? part.delta).join("");
    assert.equal(joined("reasoning-delta"), "Be polite.");
    assert.equal(joined("text-delta"), "Good morning!");
    assert.equal(await result.finishReason, "stop");
    assert((await result.usage).totalTokens > 0);
  },

  async "tools in several steps, two at once"() {
    const asked = [];
    const weather = (city) => ["get_weather", { city }];
    const answer = await generateText({
      model,
      prompt: rounds(calls(weather("Paris"), weather("Oslo")), calls(weather("Rome")), "Sunny."),
      tools: tools(asked),
      stopWhen: isStepCount(5),
    });
    assert.equal(answer.text, "Sunny.");
    assert.deepEqual(asked.sort(), ["Oslo", "Paris", "Rome"]);
    assert.equal(answer.steps.length, 3);
  },

  async "tools in a stream"() {
    const asked = [];
    const result = streamText({
      model,
      prompt: rounds(calls(["get_weather", { city: "Paris" }]), "Sunny."),
      tools: tools(asked),
      stopWhen: isStepCount(3),
    });
    assert.equal(await result.text, "Sunny.");
    assert.deepEqual(asked, ["Paris"]);
  },

  async "an answer of a given form"() {
    const answer = await generateText({
      model,
      prompt: "Who are you?",
      output: Output.object({ schema: z.object({ name: z.string() }) }),
    });
    assert.equal(typeof answer.output.name, "string");
  },

  async "an error in the middle of a stream"() {
    const result = streamText({
      model,
      prompt: script([["One", " two", " three"]], { error_line: "runner died" }),
      onError: () => {},
    });
    const parts = await collect(result.stream);
    const failed = parts.find((part) => part.type === "error");
    assert.match(JSON.stringify(failed.error.message ?? failed.error), /runner died/);
    assert(parts.some((part) => part.type === "text-delta"));
  },

  async "a model that is not there is asked for once"() {
    const failed = await generateText({ model: mochi("no-such-model"), prompt: "x" }).catch(
      (error) => error,
    );
    assert(APICallError.isInstance(failed), String(failed));
    assert.equal(failed.statusCode, 404);
    assert.match(failed.message, /no-such-model/);
  },

  async "an agent as the model"() {
    const answer = await generateText({
      model: mochi("agent:scribe"),
      prompt: rounds("1. Note it.", calls(["note", { text: "milk" }]), "Noted."),
    });
    assert.equal(answer.text, "Noted.");
    assert.equal(answer.reasoningText, "1. Note it.");
  },
});
