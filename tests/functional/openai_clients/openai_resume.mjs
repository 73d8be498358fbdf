// The official `openai` package: begins a response and leaves, or reads the rest of one.
import OpenAI from "openai";
import { collect, MODEL, script, url } from "./checks.mjs";

const [id, after] = process.argv.slice(3);
const { responses } = new OpenAI({ baseURL: url, apiKey: "any" });
const textOf = (events) =>
  events
    .filter((event) => event.type === "response.output_text.delta")
    .map((event) => event.delta)
    .join("");

if (id === undefined) {
  const input = script([["One ", "two ", "three"]], { stall_after: 2, stall_seconds: 600 });
  const stream = await responses.create({ model: MODEL, input, stream: true, background: true });
  const events = [];
  for await (const event of stream) {
    events.push(event);
    if (textOf(events) === "One two") break;
  }
  const last = events.at(-1).sequence_number;
  console.log(JSON.stringify({ id: events[0].response.id, last, text: textOf(events) }));
} else {
  const starting_after = Number(after);
  const events = await collect(await responses.retrieve(id, { stream: true, starting_after }));
  const whole = await responses.stream({ response_id: id }).finalResponse();
  console.log(
    JSON.stringify({
      numbers: events.map((event) => event.sequence_number),
      text: textOf(events),
      end: events.at(-1).type,
      status: whole.status,
      output: whole.output_text,
    }),
  );
}
