// Draws a call of a tool or an agent: what it was given, what it did, what it returned.

import { questionOf } from "./approval.js";
import { add, argumentsText, element, isolated } from "./elements.js";
import { filesPart } from "./files.js";

const DENIED = "TOOL_EXECUTION_DENIED";
const BRIEF = 80; // characters of the arguments that are shown while the card is closed

export class CallCard {
  constructor(name, given) {
    this.state = element("span", { class: "state running" }, "running");
    this.brief = element("span", { class: "brief", dir: "ltr" });
    this.given = element("pre", { tabindex: "0", dir: "ltr" });
    this.steps = element("div", { class: "steps" });
    const summary = element("summary", {}, element("code", {}, isolated(name)), this.brief, this.state);
    this.details = element("details", { class: "call", open: true }, summary, this.given, this.steps);
    this.element = element("div", { class: "tool" }, this.details);
    this.setArguments(given);
  }

  setArguments(given) {
    this.given.replaceChildren();
    add(this.given, argumentsText(given));
    const line = this.given.textContent.replace(/\s+/g, " ");
    this.brief.replaceChildren();
    if (line.length > 2) add(this.brief, element("bdi", {}, line.slice(0, BRIEF)));
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
    const { confirmation_id: id, kind = "call" } = confirmation;
    if (this.questions.some((each) => each.dataset.id === id)) return; // as after a restart
    this.show("waiting", kind === "call" ? "waits for approval" : "waits for an answer");
    this.details.open = true;
    const decide = async (approved, more) => {
      await onDecision(id, approved, more);
      if (kind !== "call") this.show("running", approved ? "answered" : "declined");
      else this.show(approved ? "running" : "failed", approved ? "approved" : "denied");
    };
    this.element.append(questionOf(confirmation, decide));
  }

  get questions() {
    return [...this.element.querySelectorAll(".question")];
  }

  /** Take back what was asked about a call that has run since. */
  answered(callId) {
    for (const each of this.questions) if (each.dataset.call === callId) each.remove();
  }

  /** Show how the call ended; what is shown already stays as it is. */
  end({ result, failed, code, attachments, milliseconds }) {
    if (this.hasResult) return;
    this.hasResult = result != null;
    for (const each of this.questions) each.remove();
    const time = milliseconds > 100 ? ` in ${(milliseconds / 1000).toFixed(1)} s` : "";
    this.show(failed ? "failed" : "done", failed ? (code === DENIED ? "denied" : "failed") : `done${time}`);
    if (result != null) this.details.append(element("p", { class: "note" }, failed ? "Error" : "Result"), element("pre", { tabindex: "0", class: "result" }, result));
    this.element.append(...filesPart(attachments));
    this.details.open = failed && code !== DENIED;
  }

  show(kind, text) {
    this.state.className = `state ${kind}`;
    this.state.textContent = text;
  }
}
