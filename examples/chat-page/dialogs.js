// Asks for a text or a decision, and shows panels, in the page's two <dialog> elements.

import { button, element } from "./elements.js";

const $ = (id) => document.getElementById(id);

/** Ask for a text, or without a label for a decision. Return what was given, or null. */
export function ask(title, { label = null, value = "" } = {}) {
  const dialog = $("ask");
  const field = $("ask-value");
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

/** Ask which tools and agents may be used; return the settings. */
export async function settingsPanel({ tools, agents }, { tool_settings: chosen, agent_settings: enabled }) {
  const check = (name, title, on) => {
    const box = element("input", { type: "checkbox", value: name, checked: on });
    return element("label", {}, box, ` ${title}`);
  };
  const toolBoxes = element(
    "fieldset",
    {},
    element("legend", {}, "Tools"),
    ...Object.values(tools).map((each) => check(each.name, `${each.name}: ${each.description}`, chosen?.tools?.includes(each.name))),
  );
  const agentBoxes = element(
    "fieldset",
    {},
    element("legend", {}, "Agents"),
    ...Object.values(agents)
      .filter((each) => each.valid)
      .map((each) => check(each.name, `${each.name}: ${each.description}`, enabled?.enabled_agents?.includes(each.name))),
  );
  const policy = element(
    "select",
    { id: "policy" },
    ...["always_confirm", "confirm_destructive", "never_confirm"].map((each) =>
      element("option", { value: each, selected: each === chosen?.execution_policy }, each.replaceAll("_", " ")),
    ),
  );
  await panel("Tools and agents", toolBoxes, element("label", { for: "policy" }, "Approval "), policy, agentBoxes);
  const checked = (boxes) => [...boxes.querySelectorAll(":checked")].map((each) => each.value);
  return {
    tool_settings: { ...chosen, tools: checked(toolBoxes), execution_policy: policy.value },
    agent_settings: { enabled_agents: checked(agentBoxes) },
  };
}
