// Draws messages: those of a session as they are saved, and those of a turn while it runs.

import { attachmentUrl } from "./client.js";
import { add, argumentsText, button, element, isolated, visible } from "./elements.js";
import { markdown } from "./markdown.js";

const WHO = { user: "You", assistant: "Model", tool: "Tool", system: "System prompt" };

/** Return an article for each message; results of tools are shown with their calls. */
export function drawMessages(messages, actions) {
  const results = new Map(messages.filter((each) => each.role === "tool").map((each) => [each.tool_call_id, each]));
  const articles = [];
  messages.forEach((message, index) => {
    if (message.role === "tool") return;
    const article = startArticle(message.role, message.model);
    if (message.thinking) article.append(thinkingPart(message.thinking, false));
    article.append(message.role === "assistant" ? textPart(message.content) : element("div", { class: "text plain" }, message.content));
    for (const call of message.tool_calls ?? []) {
      const { name, arguments: given } = call.function;
      const card = new CallCard(name, given);
      const result = results.get(call.id);
      if (result) card.end(result.content, result.failed, result.attachments);
      article.append(card.element);
    }
    article.append(...attachmentsPart(message.attachments));
    if (message.interrupted) article.append(element("p", { class: "note" }, "This answer broke off."));
    article.append(element("div", { class: "row", role: "group", "aria-label": "This message" }, ...actions(message, index)));
    articles.push(article);
  });
  return articles;
}

/** Draws a turn while it runs: give it each event of the stream. */
export class LiveTurn {
  /**
   * @param log The element that articles are added to.
   * @param onStatus Called with a line about what is waited for.
   * @param onDecision Called with a confirmation's id and true or false; a promise.
   */
  constructor(log, onStatus, onDecision) {
    this.log = log;
    this.onStatus = onStatus;
    this.onDecision = onDecision;
    this.cards = new Map();
    this.text = "";
  }

  handle({ event, data }) {
    if (event !== "status") this.onStatus("");
    this[`on_${event}`]?.(data); // events that this page does not know are ignored
  }

  on_turn_started(data) {
    this.begin(data.model);
  }

  on_tool_continuation_start() {
    this.settle();
    this.begin(this.model);
  }

  on_content_delta({ content }) {
    this.text += content;
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  on_content_reset() {
    this.text = "";
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  on_thinking_delta({ content }) {
    if (!this.thinking) {
      this.thinking = thinkingPart("", true);
      this.answer.before(this.thinking);
    }
    this.thinking.lastChild.append(content);
  }

  on_tool_call(data) {
    this.card(data).setArguments(data.arguments);
  }

  on_client_tool_call(data) {
    this.on_tool_call(data);
  }

  on_tool_call_confirmation_required(data) {
    const card = this.card(data);
    if (!data.agent_name) card.setArguments(data.arguments);
    card.ask(data, this.onDecision);
  }

  on_tool_result(data) {
    this.card(data).end(data.success ? data.result : data.error_message, !data.success, data.attachments);
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
    this.card(data).end(null, false);
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

  begin(model) {
    this.model = model;
    this.text = "";
    this.thinking = null;
    this.article = startArticle("assistant", model);
    this.article.setAttribute("aria-busy", "true"); // read out when it is complete
    this.answer = element("div", { class: "text" });
    this.article.append(this.answer);
    this.log.append(this.article);
  }

  draw() {
    this.frame = null;
    this.answer.replaceChildren(markdown(this.text));
  }

  settle() {
    if (!this.article) return;
    cancelAnimationFrame(this.frame);
    this.draw();
    this.article.setAttribute("aria-busy", "false");
  }

  card({ tool_call_id: id, tool_name: name, agent_name: agent }) {
    let card = this.cards.get(id);
    if (!card) {
      card = new CallCard(name ?? `agent ${agent}`, {});
      this.cards.set(id, card);
      this.article.append(card.element);
    }
    return card;
  }
}

/** A call of a tool or an agent: what it was given, what it did, what it returned. */
export class CallCard {
  constructor(name, given) {
    this.state = element("span", { class: "note" }, "running");
    this.given = element("pre", { tabindex: "0", dir: "ltr" });
    this.steps = element("div", { class: "steps" });
    this.element = element(
      "details",
      { class: "call", open: true },
      element("summary", {}, element("code", {}, isolated(name)), " ", this.state),
      this.given,
      this.steps,
    );
    this.setArguments(given);
  }

  setArguments(given) {
    this.given.replaceChildren();
    add(this.given, argumentsText(given));
  }

  /** Add what an agent did; pieces of the same kind are one text. */
  step(kind, text, isNew = false) {
    if (isNew || this.kind !== kind) {
      this.kind = isNew ? null : kind;
      this.last = element("pre", { tabindex: "0" });
      this.steps.append(element("p", { class: "note" }, kind), this.last);
    }
    add(this.last, text);
  }

  /** Ask a person whether it may run. */
  ask(confirmation, onDecision) {
    const { confirmation_id: id, tool_name: tool, arguments: given, agent_name: agent, reason } = confirmation;
    const decide = (approved) => async () => {
      for (const each of question.querySelectorAll("button")) each.disabled = true;
      try {
        await onDecision(id, approved);
        question.remove();
        this.state.textContent = approved ? "approved" : "denied";
      } catch (error) {
        question.append(element("p", { class: "failed" }, error.message));
      }
    };
    const question = element(
      "div",
      { class: "question", role: "group", "aria-label": `Approval of ${visible(tool)}`, "data-call": confirmation.inner_tool_call_id ?? "" },
      agent
        ? element("p", {}, "The agent ", isolated(agent), " wants to run ", isolated(tool), ":")
        : element("p", {}, "May ", isolated(tool), " run?"),
      agent ? element("pre", { tabindex: "0", dir: "ltr" }, argumentsText(given)) : null,
      reason === "tool_changed" ? element("p", { class: "failed" }, "This tool has changed since it was enabled.") : null,
      button("Approve", decide(true)),
      button("Deny", decide(false)),
    );
    this.state.textContent = "waits for approval";
    this.element.append(question);
  }

  /** Take back what was asked about a call that has run since. */
  answered(callId) {
    for (const each of this.element.querySelectorAll(".question")) if (each.dataset.call === callId) each.remove();
  }

  end(result, failed, attachments) {
    for (const each of this.element.querySelectorAll(".question")) each.remove();
    this.state.textContent = failed ? "failed" : "done";
    this.state.classList.toggle("failed", Boolean(failed));
    if (result != null) this.element.append(element("pre", { tabindex: "0", class: "result" }, result));
    this.element.append(...attachmentsPart(attachments));
    if (!failed) this.element.open = false;
  }
}

function startArticle(role, model) {
  const who = role === "assistant" && model ? model : WHO[role];
  return element("article", { class: role }, element("h2", {}, who));
}

function textPart(text) {
  const part = element("div", { class: "text" });
  part.append(markdown(text));
  return part;
}

function thinkingPart(text, open) {
  return element("details", { class: "thinking", open }, element("summary", {}, "Reasoning"), element("div", { class: "plain" }, text));
}

function attachmentsPart(attachments) {
  if (!attachments?.length) return [];
  const list = element("ul", { class: "files", "aria-label": "Attached files" });
  for (const { id, name, media_type: type, size } of attachments) {
    const item = element("li", {}, `${name} (${Math.ceil(size / 1024)} KiB)`);
    list.append(item);
    if (type.startsWith("image/")) {
      attachmentUrl(id).then(
        (url) => item.prepend(element("img", { src: url, alt: name })),
        () => item.append(" is not there any more"),
      );
    }
  }
  return [list];
}
