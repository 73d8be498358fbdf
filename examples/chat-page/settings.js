// The settings of a conversation: its system prompt, options, tools and agents.

import { call } from "./client.js";
import { button, element } from "./elements.js";

const OPTIONS = [
  ["temperature", "Temperature", "0.1"],
  ["top_p", "Top P", "0.05"],
  ["max_tokens", "Most tokens", "1"],
  ["seed", "Seed", "1"],
];
const POLICIES = { always_confirm: "Ask before every call", confirm_destructive: "Ask before destructive calls", never_confirm: "Never ask" };

const CRASHES = { "": "As the server is set", seal: "Keep what there is of it", continue: "Go on with it" };

/** What a new conversation has unless it is given something else. */
export const DEFAULTS = { tool_settings: { tools: [], execution_policy: "always_confirm" }, agent_settings: { enabled_agents: [] } };

/** Return the settings of a session, in the fields of `POST /sessions`. */
export function settingsOf({ tool_settings, agent_settings, options, on_crash, messages }) {
  return { tool_settings, agent_settings, options, on_crash, system_prompt: messages.find((each) => each.role === "system")?.content };
}

/** Show the settings in a dialog; `save` is given the changed ones, and what it throws is shown. */
export async function editSettings(settings, save) {
  const [{ prompts }, { tools }, { agents }] = await Promise.all([call("system-prompts"), call("tools"), call("agents")]);
  const prompt = promptFields(prompts, settings.system_prompt ?? "");
  const options = optionFields(settings.options ?? {});
  const chosen = settings.tool_settings ?? DEFAULTS.tool_settings;
  const toolBoxes = boxes("Tools", Object.values(tools), chosen.tools);
  const agentBoxes = boxes("Agents", Object.values(agents).filter((each) => each.valid), settings.agent_settings?.enabled_agents);
  const policy = choice("policy", POLICIES, chosen.execution_policy);
  const crash = choice("on-crash", CRASHES, settings.on_crash ?? "");
  const failed = element("p", { class: "failed", role: "alert" });

  const collected = () => ({
    system_prompt: prompt.value(),
    options: options.value(),
    on_crash: crash.value || null,
    tool_settings: { ...chosen, tools: checked(toolBoxes), execution_policy: policy.value },
    agent_settings: { ...settings.agent_settings, enabled_agents: checked(agentBoxes) },
  });
  const before = collected();
  const submit = async (event) => {
    event.preventDefault();
    try {
      const now = Object.entries(collected());
      await save(Object.fromEntries(now.filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name]))));
      dialog.close();
    } catch (error) {
      failed.textContent = error.message;
    }
  };
  const dialog = element(
    "dialog",
    { class: "settings", "aria-labelledby": "settings-title", onclose: () => dialog.remove() },
    element(
      "form",
      { onsubmit: submit },
      element("h2", { id: "settings-title" }, "Settings of this conversation"),
      element("div", { class: "scrolled" }, prompt.element, options.element, toolBoxes, row("Approval of tools", policy), agentBoxes, row("An answer that a stop of the server breaks off", crash)),
      failed,
      element("div", { class: "row" }, element("button", { class: "main" }, "Save"), button("Cancel", () => dialog.close())),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
}

/** Save changed settings of a session that is there. */
export async function saveSettings(id, { system_prompt: prompt, ...others }) {
  if (Object.keys(others).length) await call(`sessions/${id}`, { method: "PATCH", body: others });
  if (prompt === null) await call(`sessions/${id}/system-prompt`, { method: "DELETE" });
  else if (prompt !== undefined) await call(`sessions/${id}/system-prompt`, { method: "PUT", body: { content: prompt } });
}

function promptFields(prompts, text) {
  const area = element("textarea", { id: "prompt", rows: "5", placeholder: "None" });
  area.value = text;
  const take = async () => {
    if (!choice.value) return;
    area.value = (await call(`system-prompts/${encodeURIComponent(choice.value)}`)).content;
    choice.value = "";
  };
  const choice = element(
    "select",
    { id: "prompt-file", onchange: take },
    element("option", { value: "" }, "Take a saved one …"),
    prompts.map(({ filename, preview }) => element("option", { value: filename, title: preview }, filename)),
  );
  return {
    element: element("fieldset", {}, element("legend", {}, "System prompt"), element("label", { for: "prompt", class: "quiet" }, "System prompt"), area, prompts.length ? row("Saved prompts", choice) : null),
    value: () => (area.value.trim() ? area.value : null),
  };
}

function optionFields(options) {
  const fields = OPTIONS.map(([name, label, step]) => {
    const field = element("input", { type: "number", id: `option-${name}`, step, placeholder: "of the model" });
    field.value = options[name] ?? "";
    return { name, field, row: row(label, field) };
  });
  return {
    element: element("fieldset", {}, element("legend", {}, "Options"), element("div", { class: "grid" }, fields.map((each) => each.row))),
    value() {
      const found = { ...options }; // those that have no field stay
      for (const { name, field } of fields) {
        if (field.value === "") delete found[name];
        else found[name] = Number(field.value);
      }
      return Object.keys(found).length ? found : null;
    },
  };
}

function boxes(legend, entries, chosen = []) {
  if (!entries.length) return element("fieldset", {}, element("legend", {}, legend), element("p", { class: "note" }, "There are none."));
  const box = ({ name, description }) =>
    element("label", { class: "check" }, element("input", { type: "checkbox", value: name, checked: chosen.includes(name) }), element("span", {}, element("b", {}, name), " ", description));
  return element("fieldset", {}, element("legend", {}, legend), entries.map(box));
}

function checked(fieldset) {
  return [...fieldset.querySelectorAll(":checked")].map((each) => each.value);
}

function choice(id, texts, chosen) {
  return element("select", { id }, Object.entries(texts).map(([value, text]) => element("option", { value, selected: value === chosen }, text)));
}

function row(label, field) {
  return element("p", { class: "field" }, element("label", { for: field.id }, label), field);
}
