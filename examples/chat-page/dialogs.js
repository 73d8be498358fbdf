// Asks for a text or a decision, and shows panels, in the page's two <dialog> elements.

import { button, element } from "./elements.js";

const $ = (id) => document.getElementById(id);

let last = Promise.resolve(); // what is asked in the dialog, which can ask one thing at a time

/** Ask for a text, of one line if it has the `type` of an input, or without a label for a decision. Return what was given, or null. */
export function ask(title, options) {
  const answer = last.then(() => show(title, options));
  last = answer.catch(() => {}); // whoever asked has the error
  return answer;
}

function show(title, { label = null, value = "", type = null } = {}) {
  const dialog = $("ask");
  const field = type ? element("input", { id: "ask-value", type, autocomplete: "off" }) : element("textarea", { id: "ask-value", rows: 3 });
  $("ask-value").replaceWith(field);
  $("ask-title").textContent = title;
  $("ask-label").textContent = label;
  field.hidden = $("ask-label").hidden = label === null;
  field.value = value;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "ok" ? field.value : null), { once: true });
  });
}

/** Show elements in a panel; return when it is closed. */
export function panel(title, ...children) {
  const dialog = $("panel");
  $("panel-title").textContent = title;
  $("panel-body").replaceChildren(...children);
  if (!dialog.open) dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
}

/** Show what the next request would send to the model, and what it would leave out. */
export function contextPanel(context) {
  const row = (...cells) => element("tr", {}, ...cells.map((each) => element("td", {}, String(each ?? ""))));
  const head = (...cells) => element("tr", {}, ...cells.map((each) => element("th", { scope: "col" }, each)));
  const files = (each) => (each.attachments ?? []).map((file) => `${file.name}${file.left_out ? ` (${file.left_out})` : ""}`);
  return panel(
    "What the model will be sent",
    element("p", {}, `About ${context.estimate.tokens} tokens of ${context.limit ?? context.window ?? "an unknown number"}.`),
    context.summary ? element("p", {}, `Summary of what came before: ${context.summary}`) : "",
    element(
      "table",
      {},
      element("thead", {}, head("Message", "Role", "Tokens")),
      element(
        "tbody",
        {},
        ...context.messages.map((each) => row(each.index, [each.role, ...files(each)].join(", "), each.tokens)),
        ...context.left_out.map((each) => row(each.index, each.role, `left out: ${each.reason}`)),
      ),
    ),
  );
}

/** Show the answers that one replaced; call `choose` with a message id of the wanted one. */
export function variantsPanel(variants, draw, choose) {
  const shown = variants.flatMap((variant) => [
    ...draw(variant),
    button("Use this answer", () => {
      $("panel").close();
      choose(variant[0].message_id);
    }),
  ]);
  return panel("Other answers", ...shown);
}

const KEYS = [
  ["Enter", "send (Shift+Enter: a new line; on phones the other way round)"],
  ["Enter, during an answer", "wait for its end; Enter again: be read before the model's next step"],
  ["Escape", "stop the answer"],
  ["Shift+Escape", "to the message field"],
  ["Ctrl+Shift+O", "new conversation"],
  ["Ctrl+K", "search"],
  ["Ctrl+/", "this help"],
];

/** Show what the keyboard does. */
export function keysPanel() {
  const rows = KEYS.map(([key, use]) => [element("dt", {}, element("kbd", {}, key)), element("dd", {}, use)]);
  return panel("Keyboard", element("dl", {}, rows));
}

/** Show what an import has brought, and what it has not. */
export function importPanel({ imported, same, broken, attachments_left_out: files, problems }) {
  return panel(
    "Import",
    element("p", {}, `${imported} imported, ${same} were here before, ${broken} could not be read.`),
    files ? element("p", {}, `${files} files were not in it.`) : null,
    element("ul", {}, problems.map(({ place, reason }) => element("li", {}, `${place}: ${reason}`))),
  );
}
