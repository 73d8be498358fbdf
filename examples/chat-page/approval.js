// Asks a person whether a tool may run, or what the server of a running one wants to know.

import { argumentsText, button, element, focusMessage, isolated, link, visible } from "./elements.js";
import { formOf } from "./form.js";

const SETTLING = 500; // milliseconds for which a key or click is still meant for what was there before
let moved = 0; // when a question last came or went
const unlessHeld = (event) => event.repeat && event.key === "Enter" && event.preventDefault();

/**
 * Return the question; `decide(approved, more)` is a promise, with the arguments and the scope of
 * `confirm-tool` in `more`. The question goes once that is done, and the focus to the next question
 * as a whole: a key pressed twice approves nothing unread.
 */
export function questionOf(confirmation, decide) {
  const { tool_name: tool, arguments: given, agent_name: agent, reason, expires_at: expires } = confirmation;
  const form = confirmation.schema ? formOf(confirmation.schema) : null;
  const isOfServer = ["input", "url"].includes(confirmation.kind);
  const isAgain = reason === "may_have_run";
  const isOnce = isAgain || reason === "tool_changed"; // what is approved can't be remembered
  const failed = element("p", { class: "failed", role: "alert" });
  const remember = element("input", { type: "checkbox" });
  const written = JSON.stringify(given, null, 2);
  const changed = element("textarea", { rows: "4", spellcheck: "false", "aria-label": "Arguments as JSON" });
  changed.value = written;

  const answer = (approved) => async (event) => {
    if (event.timeStamp < moved + SETTLING) return;
    const hadFocus = question.contains(document.activeElement);
    failed.textContent = "";
    try {
      const more = {};
      if (approved && remember.checked) more.remember = "session";
      if (approved && form) more.content = form.content();
      if (approved && changed.value !== written) more.arguments = JSON.parse(changed.value);
      for (const each of buttons) each.disabled = true;
      await decide(approved, more);
      question.remove();
      moved = performance.now();
      if (hadFocus) (document.querySelector(".question") ?? focusMessage()).focus();
    } catch (error) {
      failed.textContent = error.message;
      for (const each of buttons) each.disabled = false;
    }
  };
  const buttons = [
    button(isOfServer ? (form ? "Send" : "Continue") : isAgain ? "Run again" : "Approve", answer(true), { class: "main", onkeydown: unlessHeld }),
    button(isOfServer ? "Decline" : isAgain ? "Don't run again" : "Deny", answer(false), { onkeydown: unlessHeld }),
  ];
  const parts = isOfServer ? partsOfServer(confirmation, form) : [
    agent
      ? element("p", {}, "The agent ", isolated(agent), " wants to run ", isolated(tool), isAgain ? " again:" : ":")
      : element("p", {}, "May ", isolated(tool), isAgain ? " run again?" : " run?"),
    agent ? element("pre", { tabindex: "0", dir: "ltr" }, argumentsText(given)) : null,
    reason === "tool_changed" ? element("p", { class: "failed" }, "This tool has changed since it was enabled.") : null,
    isAgain ? element("p", { class: "failed" }, "It was running when the server stopped, and may have done its work: then it does it twice.") : null,
    element("details", {}, element("summary", {}, "Change the arguments"), changed),
    isOnce ? null : element("label", { class: "check" }, remember, " Don't ask again in this conversation"),
  ];
  const question = element(
    "div",
    { class: "question", role: "group", tabindex: "-1", "aria-label": `${isOfServer ? "Question" : "Approval"} of ${visible(tool)}`, "data-id": confirmation.confirmation_id, "data-call": confirmation.inner_tool_call_id ?? "" },
    parts,
    element("div", { class: "answer" }, buttons, expires ? element("small", {}, `until ${new Date(expires).toLocaleTimeString([], { timeStyle: "short" })}`) : null),
    failed,
  );
  moved = performance.now();
  return question;
}

/** Return what a server asks for: the values of a form, or that an address is opened. */
function partsOfServer({ server, tool_name: tool, message, url, secret_names: secrets = [] }, form) {
  const names = secrets.map(visible).join(", ");
  return [
    element("p", {}, "The server ", isolated(server), ", for ", isolated(tool), url ? ", wants an address opened:" : ", asks:"),
    element("p", { class: "asked", dir: "auto" }, visible(message)),
    url ? element("p", { dir: "ltr" }, link(url, visible(url))) : null,
    names ? element("p", { class: "failed" }, `This looks like a secret: ${names}. Servers must not ask for these here; leave it empty.`) : null,
    form ? form.fields : null,
  ];
}
