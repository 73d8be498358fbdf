// Puts the page together: the composer, the header, the list, and which conversation is open.

import { access, call, download, importFile } from "./client.js";
import { Composer, forgetDraft } from "./composer.js";
import { Conversation } from "./conversation.js";
import { ask, importPanel, keysPanel } from "./dialogs.js";
import { button, element, focusMessage } from "./elements.js";
import { Following } from "./following.js";
import { openMenu } from "./menu.js";
import { DEFAULTS, editSettings, saveSettings, settingsOf } from "./settings.js";
import { Sidebar, nameOf } from "./sidebar.js";

const $ = (id) => document.getElementById(id);
const narrow = matchMedia("(max-width: 50rem)");

access.askForToken = (isWrong) =>
  ask(isWrong ? "That was not the token" : "This server wants a token", { label: "Token, as the server printed it" });
access.onSilence = (waiting) => ($("silence").hidden = !waiting);

let settings = DEFAULTS; // of the session that is made next

const composer = new Composer({
  send,
  stop: () => conversation.stop(),
  alert: (line) => showAlert(line),
  model: (model) => conversation.id && conversation.update({ model }),
});

const conversation = new Conversation($("thread"), new Following($("messages"), $("thread"), $("jump")), {
  busy: (running) => composer.busy(running),
  status: (line) => ($("status").textContent = line),
  alert: showAlert,
  options: () => composer.options,
  changed(session) {
    $("empty").hidden = Boolean(session);
    $("actions").hidden = !session;
    $("title").textContent = session ? nameOf(session) : "New conversation";
    document.title = `${$("title").textContent} – mochi chat`;
    composer.showModel(session ? session.model : composer.lastModel);
    showSettings(session ?? settings);
  },
});

const sidebar = new Sidebar($("sessions"), $("more"), {
  menu: (opener, session) => openMenu(opener, actionsOf(session)),
  changed(id) {
    const { id: open } = conversation;
    if (id !== null && id !== open) return;
    conversation.refresh().catch((error) => {
      if (error.code === "SESSION_NOT_FOUND") leave(open, "This conversation was deleted.");
    });
  },
});

function showAlert(line, retry) {
  const dismiss = button("", () => showAlert(""), { class: "icon cross", "aria-label": "Dismiss" });
  $("alert").replaceChildren(...(line ? [element("span", {}, line), " ", retry ? button("Try again", retry) : "", dismiss] : []));
}

/** Show a new conversation in place of one that is gone, if that is open; say why. */
async function leave(id, line) {
  forgetDraft(id);
  if (id !== conversation.id) return;
  history.replaceState(null, "", location.pathname + location.search);
  await openFromAddress();
  showAlert(line);
}

async function openFromAddress() {
  const [, id = null, messageId] = /^#\/([0-9a-f]{10})(?:\/(.+))?$/.exec(location.hash) ?? [];
  sidebar.select(id);
  showSidebar(false);
  if (id !== conversation.id || !conversation.session) {
    composer.open(id);
    await conversation.doing(() => conversation.open(id));
    if (!id) focusMessage();
  }
  if (messageId) conversation.point(messageId);
}

function showSidebar(open) {
  const covers = open && narrow.matches;
  document.body.classList.toggle("drawn", covers);
  $("drawer").setAttribute("aria-expanded", String(covers));
  $("main").inert = covers;
  $("sidebar").inert = narrow.matches && !open;
  if (covers) $("close").focus();
}

/** Send a message; what is refused goes back into the form, and leaves no empty conversation. */
async function send(message, files) {
  await conversation.doing(async () => {
    const isNew = !conversation.id;
    let refusal;
    try {
      if (isNew) await begin();
      const { id } = conversation;
      refusal = await conversation.send(message, files);
      if (refusal && isNew) {
        await call(`sessions/${id}?force=true`, { method: "DELETE" });
        await leave(id, "");
      }
    } catch (error) {
      refusal = error;
    }
    if (!refusal) return isNew && (settings = DEFAULTS); // of the next one
    composer.restore(message, files);
    throw refusal;
  });
}

async function begin() {
  const made = await call("sessions", { body: { model: composer.model, ...settings } });
  await conversation.open(made.session_id);
  composer.open(made.session_id);
  history.replaceState(null, "", `#/${made.session_id}`);
  sidebar.select(made.session_id);
}

function showSettings({ tool_settings: tools, agent_settings: agents }) {
  const count = (tools?.tools?.length ?? 0) + (agents?.enabled_agents?.length ?? 0);
  $("settings").textContent = count ? `Settings (${count})` : "Settings";
}

async function chooseSettings() {
  const { id, session } = conversation;
  await editSettings(session ? settingsOf(session) : settings, async (changes) => {
    if (id) await saveSettings(id, changes);
    else showSettings((settings = { ...settings, ...changes }));
    await conversation.refresh();
  });
}

/** What can be done with a conversation, whether it is open or not. */
function actionsOf(session) {
  const { session_id: id, pinned, archived } = session;
  const change = (body) => () => conversation.doing(() => changed(id, body));
  const exported = (format) => () => conversation.doing(() => download(`sessions/${id}/export?format=${format}`));
  const isOpen = id === conversation.id;
  return [
    ["Rename", () => rename(session)],
    [pinned ? "Unpin" : "Pin", change({ pinned: !pinned })],
    [archived ? "Take out of the archive" : "Archive", change({ archived: !archived })],
    isOpen && ["Fork", () => conversation.fork()],
    isOpen && ["Context", () => conversation.showContext()],
    ["Export as Markdown", exported("markdown")],
    ["Export as JSON", exported("json")],
    ["Export with files", exported("zip")],
    ["Delete", () => remove(session)],
  ];
}

async function changed(id, body) {
  await call(`sessions/${id}`, { method: "PATCH", body });
  await Promise.all([sidebar.refresh(), id === conversation.id && conversation.refresh()]);
}

async function rename({ session_id: id, title }) {
  const given = await ask("Rename the conversation", { label: "Title; empty has the server find one", value: title ?? "" });
  if (given !== null) await conversation.doing(() => changed(id, { title: given.trim() || null }));
}

async function remove(session) {
  if ((await ask(`Delete “${nameOf(session).slice(0, 100)}” for good?`)) === null) return;
  await conversation.doing(async () => {
    await call(`sessions/${session.session_id}?force=true`, { method: "DELETE" });
    await leave(session.session_id, "");
    await sidebar.refresh();
  });
}

async function bringIn() {
  const [file] = $("import").files;
  $("import").value = "";
  if (!file) return;
  await conversation.doing(async () => {
    $("status").textContent = `Importing ${file.name} …`;
    const report = await importFile(file).finally(() => ($("status").textContent = ""));
    await sidebar.refresh();
    await importPanel(report);
  });
}

function startNew() {
  location.hash = "";
  showSidebar(false);
  focusMessage();
}

function search() {
  showSidebar(true);
  $("search").focus();
}

const SHORTCUTS = { "shift O": startNew, K: search, "/": keysPanel };

document.addEventListener("keydown", (event) => {
  const isCovered = document.querySelector(":modal, :popover-open");
  const key = `${event.shiftKey ? "shift " : ""}${event.key.length === 1 ? event.key.toUpperCase() : event.key}`;
  if (isCovered) return;
  if ((event.ctrlKey || event.metaKey) && SHORTCUTS[key]) {
    event.preventDefault();
    SHORTCUTS[key]();
  } else if (key === "shift Escape") focusMessage();
  else if (key === "Escape" && document.body.classList.contains("drawn")) closeDrawer();
  else if (key === "Escape" && conversation.running) conversation.stop();
});

function closeDrawer() {
  showSidebar(false);
  $("drawer").focus();
}

$("new").addEventListener("click", startNew);
$("fresh").addEventListener("click", startNew);
$("drawer").addEventListener("click", () => showSidebar(true));
$("close").addEventListener("click", closeDrawer);
$("backdrop").addEventListener("click", closeDrawer);
$("search").addEventListener("input", () => conversation.doing(() => sidebar.search($("search").value)));
$("archived").addEventListener("click", () => {
  sidebar.archived = !sidebar.archived;
  $("archived").setAttribute("aria-pressed", String(sidebar.archived));
  conversation.doing(() => sidebar.refresh());
});
$("others").addEventListener("click", () =>
  openMenu($("others"), [
    ["Import a file", () => $("import").click()],
    ["Export everything", () => conversation.doing(() => download("export?format=zip"))],
    ["Keyboard", keysPanel],
    ["API documentation", () => location.assign("api/v1/docs")],
  ]),
);
$("import").addEventListener("change", bringIn);
$("settings").addEventListener("click", () => conversation.doing(chooseSettings));
$("actions").addEventListener("click", () => openMenu($("actions"), actionsOf(conversation.session)));
window.addEventListener("hashchange", openFromAddress);
window.addEventListener("focus", () => $("no-model").hidden || composer.loadModels());
narrow.addEventListener("change", () => showSidebar(false));

await conversation.doing(() => sidebar.refresh()); // the first request: asks for the token if one is wanted
sidebar.follow().catch((error) => showAlert(error.message));
await openFromAddress();
await composer.loadModels();
document.body.dataset.ready = "true";
