// Puts the page together: the composer, the header, the list, and which conversation is open.

import { access, call, upload } from "./client.js";
import { Conversation } from "./conversation.js";
import { ask, settingsPanel } from "./dialogs.js";
import { button, element } from "./elements.js";
import { Following } from "./following.js";
import { Sidebar, nameOf } from "./sidebar.js";

const $ = (id) => document.getElementById(id);
const NOTHING = { tool_settings: { tools: [], execution_policy: "always_confirm" }, agent_settings: { enabled_agents: [] } };

access.askForToken = (isWrong) =>
  ask(isWrong ? "That was not the token" : "This server wants a token", { label: "Token, as the server printed it" });
access.onSilence = (waiting) => ($("silence").hidden = !waiting);

let attached = [];
let settings = NOTHING; // of the session that is made next

const conversation = new Conversation($("thread"), new Following($("messages"), $("thread"), $("jump")), {
  busy(running) {
    $("stop").hidden = !running;
    showWhetherToSend();
  },
  status(line) {
    $("status").textContent = line;
  },
  alert(line, retry) {
    $("alert").replaceChildren(line, ...(retry ? [" ", button("Try again", retry)] : []));
  },
  changed(session) {
    $("actions").hidden = !session;
    $("title").textContent = session ? nameOf(session) : "New conversation";
    document.title = `${$("title").textContent} – mochi chat`;
    $("pin").setAttribute("aria-pressed", String(Boolean(session?.pinned)));
    if (session) chooseModel(session.model);
    showSettings(session ?? settings);
  },
});

const sidebar = new Sidebar($("sessions"), $("more"), (id) => {
  if (id === null || id === conversation.id) {
    conversation.refresh().catch((error) => {
      if (error.code !== "SESSION_NOT_FOUND") return; // the next change asks again
      location.hash = "";
      conversation.open(null).then(() => $("alert").replaceChildren("This conversation was deleted."));
    });
  }
});

async function openFromAddress() {
  const id = /^#\/([0-9a-f]{10})$/.exec(location.hash)?.[1] ?? null;
  sidebar.select(id);
  showSidebar(false);
  if (id !== conversation.id) await conversation.doing(() => conversation.open(id));
}

function showSidebar(open) {
  $("sidebar").classList.toggle("open", open); // which tells something on narrow windows alone
  $("menu").setAttribute("aria-expanded", String(open));
}

async function send(event) {
  event?.preventDefault();
  const message = $("message").value;
  const files = attached;
  if ($("send").disabled || (!message.trim() && !files.length)) return;
  conversation.options = $("think").checked ? { think: true } : {};
  await conversation.doing(async () => {
    if (!conversation.id) {
      const made = await call("sessions", { body: { model: $("model").value || undefined, ...settings } });
      await conversation.open(made.session_id);
      history.replaceState(null, "", `#/${made.session_id}`);
      sidebar.select(made.session_id);
    }
    $("message").value = "";
    setAttached([]);
    if (!(await conversation.send(message, files)) && !conversation.session?.messages.some((each) => each.content === message)) {
      $("message").value = message; // it was refused: nothing that was written is lost
      setAttached(files);
    }
  });
}

function setAttached(files) {
  attached = files;
  const remove = (file) => setAttached(attached.filter((each) => each !== file));
  $("attached").replaceChildren(...files.map((file) => element("li", {}, `${file.name} `, button("Remove", () => remove(file), { "aria-label": `Remove ${file.name}` }))));
}

async function attach(files) {
  for (const file of files) {
    await conversation.doing(async () => setAttached([...attached, await upload(file)]));
  }
}

function chooseModel(name) {
  if (![...$("model").options].some((each) => each.value === name)) $("model").append(element("option", { value: name }, name));
  $("model").value = name;
}

/** Offer the models there are; where there are none, say why, and offer no sending. */
async function loadModels() {
  let reason = "No model is installed: `ollama pull qwen3:4b` gets one. Or start the server with the API key of a provider.";
  try {
    const { models, unavailable = [] } = await call("models");
    reason = models.length ? "" : [reason, ...unavailable.map(({ message }) => message)].join(" ");
    $("model").replaceChildren(...models.map(({ name }) => element("option", { value: name }, name)));
    if (conversation.session) chooseModel(conversation.session.model);
  } catch (error) {
    reason = error.message;
  }
  $("no-model").replaceChildren(...(reason ? [reason, " ", button("Look again", loadModels)] : []));
  $("no-model").hidden = !reason;
  showWhetherToSend();
}

function showWhetherToSend() {
  $("send").disabled = conversation.running || !$("no-model").hidden;
}

async function chooseSettings() {
  const [{ tools }, { agents }] = await Promise.all([call("tools"), call("agents")]);
  const chosen = await settingsPanel({ tools, agents }, conversation.session ?? settings);
  if (conversation.id) await conversation.update(chosen);
  else showSettings((settings = chosen));
}

function showSettings({ tool_settings: tools, agent_settings: agents }) {
  const count = (tools?.tools?.length ?? 0) + (agents?.enabled_agents?.length ?? 0);
  $("settings").textContent = count ? `Tools and agents (${count})` : "Tools and agents";
}

async function rename() {
  const title = await ask("Rename the conversation", { label: "Title; empty has the server find one", value: conversation.session.title ?? "" });
  if (title !== null) await conversation.update({ title: title.trim() || null });
}

async function remove() {
  if ((await ask("Delete this conversation for good?")) === null) return;
  await conversation.doing(async () => {
    await call(`sessions/${conversation.id}?force=true`, { method: "DELETE" });
    location.hash = "";
  });
}

$("composer").addEventListener("submit", send);
$("message").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event);
  if (event.key === "Escape" && conversation.running) conversation.stop();
});
$("message").addEventListener("paste", (event) => {
  if (event.clipboardData.files.length) {
    event.preventDefault();
    attach([...event.clipboardData.files]);
  }
});
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  attach([...event.dataTransfer.files]);
});
$("files").addEventListener("change", async () => {
  const files = [...$("files").files];
  $("files").value = "";
  await attach(files);
});
$("model").addEventListener("change", () => conversation.id && conversation.update({ model: $("model").value }));
$("stop").addEventListener("click", () => conversation.stop());
$("new").addEventListener("click", () => {
  location.hash = "";
  $("message").focus();
});
$("menu").addEventListener("click", () => showSidebar(!$("sidebar").classList.contains("open")));
$("search").addEventListener("input", () => conversation.doing(() => sidebar.search($("search").value)));
$("settings").addEventListener("click", () => conversation.doing(chooseSettings));
$("rename").addEventListener("click", rename);
$("pin").addEventListener("click", () => conversation.update({ pinned: !conversation.session.pinned }));
$("fork").addEventListener("click", () => conversation.fork());
$("context").addEventListener("click", () => conversation.showContext());
$("delete").addEventListener("click", remove);
window.addEventListener("hashchange", openFromAddress);

window.addEventListener("focus", () => $("no-model").hidden || loadModels());

await conversation.doing(() => sidebar.refresh()); // the first request: asks for the token if one is wanted
sidebar.follow().catch((error) => conversation.hooks.alert(error.message));
await openFromAddress();
await loadModels();
document.body.dataset.ready = "true";
