// Says what an answer took: tokens, seconds and cost, as far as they are known.

import { element } from "./elements.js";

/** Return what each turn has taken: the sums over its messages, by turn id. */
export function usageOfTurns(messages) {
  const turns = new Map();
  for (const { turn_id: id, usage } of messages) {
    if (!id || !usage) continue;
    const sum = turns.get(id) ?? {};
    for (const name of ["input_tokens", "output_tokens", "total_ms", "cost_usd"]) {
      if (usage[name] != null) sum[name] = (sum[name] ?? 0) + Number(usage[name]);
    }
    turns.set(id, sum);
  }
  return turns;
}

/** Return a line for below an answer; the rest is told where the pointer rests. */
export function usageLine({ timestamp, role, model }, usage) {
  const { input_tokens: input, output_tokens: output, total_ms: time, cost_usd: cost } = usage ?? {};
  const date = timestamp ? new Date(timestamp) : null;
  const shown = role !== "assistant" ? [] : [
    output ? `${output.toLocaleString()} ${output === 1 ? "token" : "tokens"}` : null,
    time >= 100 ? `${(time / 1000).toFixed(1)} s` : null,
    cost ? `$${cost.toFixed(cost < 0.01 ? 5 : 2)}` : null,
  ];
  const more = [
    model,
    date?.toLocaleString(),
    input ? `${input.toLocaleString()} tokens in` : null,
    output && time >= 100 ? `${Math.round(output / (time / 1000))} tokens a second` : null,
  ];
  const text = [...shown, date?.toLocaleTimeString([], { timeStyle: "short" })].filter(Boolean).join(" · ");
  return element("span", { class: "usage", title: more.filter(Boolean).join("\n") }, text);
}
