// Draws messages: those of a session as they are saved, and those of a turn while it runs.

import { CallCard } from "./call_card.js";
import { copyButton } from "./code.js";
import { argumentsText, element, visible } from "./elements.js";
import { filesPart } from "./files.js";
import { MarkdownText } from "./markdown.js";
import { usageLine, usageOfTurns } from "./usage.js";

const WHO = { user: "You", assistant: "Model", system: "System prompt" };
const STOPPED = /\n*\[cancelled\]$/; // how the server marks a text that a person stopped
const ENDS = {
  cancelled: "You stopped this answer.",
  interrupted: "This answer broke off.",
  length: "This answer reached the model's limit of length.",
};

const live = new Map(); // views of the running turn by message id: they go on to show what is saved

/**
 * Return an article for each message; results of tools are shown with their calls.
 * `actions(message, index)` returns buttons, `usage` has what each turn has taken.
 */
export function drawMessages(messages, actions, usage = usageOfTurns(messages)) {
  const results = new Map(messages.filter((each) => each.role === "tool").map((each) => [each.tool_call_id, each]));
  const articles = [];
  messages.forEach((message, index) => {
    if (message.role === "tool") return;
    const view = live.get(message.message_id) ?? new MessageView(message.role, message.model);
    live.delete(message.message_id);
    view.complete(message, results, actions(message, index), usage.get(message.turn_id));
    articles.push(view.element);
  });
  return articles;
}

/** One message: its parts can be added to until it is complete. */
class MessageView {
  constructor(role, model) {
    this.cards = new Map();
    this.markdown = role === "assistant" ? new MarkdownText() : null;
    this.text = this.markdown?.element ?? element("div", { class: "text plain" });
    this.calls = element("div");
    this.end = element("div", { class: "end" }); // has its height before it has buttons: nothing jumps
    const who = role === "assistant" && model ? model : WHO[role];
    this.element = element("article", { class: role }, element("h2", {}, who), this.text, this.calls, this.end);
  }

  /** Show what was saved, leaving what is shown already. */
  complete(message, results, actions, usage) {
    const text = message.cancelled ? message.content.replace(STOPPED, "") : message.content;
    if (this.markdown) this.markdown.finish(text);
    else this.text.textContent = text;
    if (message.thinking) this.reasoning ??= this.startReasoning(message.thinking);
    for (const { id, function: { name, arguments: given } } of message.tool_calls ?? []) {
      const card = this.card(id, name, given);
      const result = results.get(id);
      if (result) card.end({ result: result.content, failed: result.failed, code: result.error_code, attachments: result.attachments });
    }
    const end = ["cancelled", "interrupted"].find((each) => message[each]) ?? message.done_reason;
    const again = actions.filter((each) => each.matches(".again"));
    const copy = text ? [copyButton(() => text)] : [];
    this.element.setAttribute("aria-busy", "false");
    this.element.classList.toggle("step", Boolean(message.tool_calls?.length));
    this.end.replaceChildren(
      ...filesPart(message.attachments),
      ...(ENDS[end] ? [element("p", { class: "note" }, ENDS[end], " ", ...again)] : []),
      element("div", { class: "row", role: "group", "aria-label": "This message" }, ...copy, ...actions.filter((each) => !again.includes(each)), usageLine(message, usage)),
    );
  }

  card(id, name, given = {}) {
    let card = this.cards.get(id);
    if (!card) {
      card = new CallCard(name, given);
      this.cards.set(id, card);
      this.calls.append(card.element);
    }
    return card;
  }

  /** Show reasoning before the text; return its elements. */
  startReasoning(text = "") {
    const summary = element("summary", {}, "Reasoning");
    const body = element("div", { class: "plain" }, text);
    const details = element("details", { class: "thinking", open: !text }, summary, body);
    this.text.before(details);
    const made = { summary, body, details, begun: performance.now() };
    summary.addEventListener("click", () => (made.isTouched = true));
    return made;
  }

  /** Say how long the model reasoned, and fold it away unless a person has touched it. */
  endReasoning() {
    const { reasoning } = this;
    if (!reasoning || reasoning.hasEnded) return;
    reasoning.hasEnded = true;
    reasoning.summary.textContent = `Reasoned for ${Math.max(1, Math.round((performance.now() - reasoning.begun) / 1000))} s`;
    if (!reasoning.isTouched) reasoning.details.open = false;
  }
}

/** Draws a turn while it runs: give it each event of the stream. */
export class LiveTurn {
  /**
   * @param log The element that articles are added to.
   * @param onStatus Called with a line about what is waited for.
   * @param onDecision Called with a confirmation's id and what was decided; a promise.
   */
  constructor(log, onStatus, onDecision) {
    this.log = log;
    this.onStatus = onStatus;
    this.onDecision = onDecision;
    this.cards = new Map();
    live.clear();
  }

  handle({ event, data }) {
    if (event !== "status") this.onStatus("");
    this[`on_${event}`]?.(data); // events that this page does not know are ignored
  }

  on_turn_started(data) {
    this.begin(data.model, data.message_id);
  }

  on_tool_continuation_start(data) {
    this.settle();
    if (!this.content && !this.view.reasoning && !this.view.cards.size) this.view.element.remove(); // nothing came of it
    this.view.element.classList.add("step");
    this.begin(this.model, data.message_id);
  }

  /** Show a message that waited, and that the model reads before its next step. */
  on_message_taken(data) {
    this.settle();
    const view = new MessageView("user");
    live.set(data.message_id, view);
    view.complete({ role: "user", ...data }, new Map(), []);
    this.log.append(view.element);
  }

  /** Go on with a turn whose server stopped: what it does not keep comes anew. */
  on_turn_resumed({ message_id: id, discarded = [] }) {
    for (const each of discarded) {
      live.get(each)?.element.remove();
      live.delete(each);
    }
    if (!live.has(id)) this.on_tool_continuation_start({ message_id: id }); // else it goes on
    this.onStatus("The server was started again; the answer goes on.");
  }

  on_content_delta({ content }) {
    this.content += content;
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  on_content_reset() {
    this.content = "";
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  on_thinking_delta({ content }) {
    this.thought += content;
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  on_tool_call(data) {
    this.card(data).setArguments(data.arguments);
  }

  on_client_tool_call(data) {
    this.on_tool_call(data);
  }

  on_tool_call_confirmation_required(data) {
    const card = this.card(data);
    if (!data.agent_name && !data.kind) card.setArguments(data.arguments);
    card.ask(data, this.onDecision);
  }

  on_tool_result(data) {
    const card = this.card(data);
    if (data.arguments) card.setArguments(data.arguments); // which a person has changed
    card.end({
      result: data.success ? data.result : data.error_message,
      failed: !data.success,
      code: data.error_code,
      attachments: data.attachments,
      milliseconds: data.execution_time_ms,
    });
  }

  on_agent_start(data) {
    this.card({ ...data, tool_name: `agent ${data.agent_name}` }).setArguments(data.instruction);
  }

  on_agent_planning(data) {
    this.card(data).step("plan", data.content);
  }

  on_agent_execution(data) {
    this.card(data).step("says", data.content);
  }

  on_agent_tool_call(data) {
    this.card(data).step(`calls ${visible(data.tool_name)}`, argumentsText(data.arguments), true);
  }

  on_agent_tool_result(data) {
    this.card(data).answered(data.inner_tool_call_id);
    this.card(data).step(`${data.tool_name} ${data.success ? "returned" : "failed"}`, `${data.summary}\n`, true);
  }

  on_agent_complete(data) {
    this.card(data).end({ result: null, failed: false });
  }

  on_status(data) {
    const progress = data.total ? ` ${Math.round((100 * data.progress) / data.total)} %` : "";
    this.onStatus(data.message ?? `${data.state.replaceAll("_", " ")}${progress} …`);
  }

  on_error(data) {
    this.failure = data;
  }

  on_done() {
    this.settle();
  }

  begin(model, messageId) {
    this.model = model;
    this.content = "";
    this.thought = "";
    this.view = new MessageView("assistant", model);
    if (messageId) live.set(messageId, this.view);
    this.view.element.setAttribute("aria-busy", "true"); // read out when it is complete
    this.log.append(this.view.element);
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = null;
    const { view } = this;
    if (this.thought) {
      view.reasoning ??= view.startReasoning();
      view.reasoning.body.append(this.thought);
      this.thought = "";
    }
    if (this.content) view.endReasoning();
    view.markdown.update(this.content);
  }

  settle() {
    if (!this.view) return;
    this.draw();
    this.view.markdown.finish(this.content);
    this.view.endReasoning();
    this.view.element.setAttribute("aria-busy", "false");
  }

  card({ tool_call_id: id, tool_name: name, agent_name: agent }) {
    if (this.frame) this.draw(); // the text comes first, and moves no card that is shown
    const card = this.cards.get(id) ?? this.view.card(id, name ?? `agent ${agent}`);
    this.cards.set(id, card);
    return card;
  }
}
