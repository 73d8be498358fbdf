// The AI SDK, with its provider for Anthropic.
import { createAnthropic } from "@ai-sdk/anthropic";
import { generateText, isStepCount, Output, streamText, tool } from "ai";
import { z } from "zod";
import { assert, calls, collect, MODEL, run, script, thinking, url } from "./checks.mjs";

const mochi = createAnthropic({ baseURL: `${url}/v1`, apiKey: "any" });
const model = mochi(MODEL);
const reasons = { anthropic: { thinking: { type: "enabled", budgetTokens: 1024 } } };

await run({
  async "an answer"() {
    const answer = await generateText({ model, prompt: script(["Hello!"]) });
    assert.equal(answer.text, "Hello!");
    assert.equal(answer.finishReason, "stop");
    assert(answer.usage.inputTokens > 0 && answer.usage.outputTokens > 0);
  },

  async "a stream with reasoning"() {
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
  },

  async "reasoning goes back with the results of tools"() {
    const sent = [];
    const spying = createAnthropic({
      baseURL: `${url}/v1`,
      apiKey: "any",
      fetch: (target, options) => {
        sent.push(JSON.parse(options.body));
        return fetch(target, options);
      },
    });
    await generateText({
      model: spying(MODEL),
      prompt: script([thinking("I know.", "I look."), calls(["get_weather", { city: "Oslo" }])]),
      providerOptions: reasons,
      stopWhen: isStepCount(2),
      tools: {
        get_weather: tool({
          inputSchema: z.object({ city: z.string() }),
          execute: async () => "sunny",
        }),
      },
    });
    const [reasoning] = sent[1].messages.at(-2).content;
    assert.equal(reasoning.thinking, "I know.");
    assert(reasoning.signature.startsWith("m1."));
  },

  async "an object"() {
    const { output } = await generateText({
      model,
      prompt: script(['{"name": "Ada"}']),
      output: Output.object({ schema: z.object({ name: z.string() }) }),
    });
    assert.equal(typeof output.name, "string");
  },
});
