// Puts the page together: the composer, the header, the list, and which conversation is open.

import { API, access, call, download, importFile } from "./client.js";
import { Composer, forgetDraft } from "./composer.js";
import { Conversation } from "./conversation.js";
import { ask, importPanel, keysPanel } from "./dialogs.js";
import { button, element, focusMessage } from "./elements.js";
import { Following } from "./following.js";
import { Inbox } from "./inbox.js";
import { openMenu } from "./menu.js";
import { DEFAULTS, editSettings, saveSettings, settingsOf } from "./settings.js";
import { Sidebar, nameOf } from "./sidebar.js";

const $ = (id) => document.getElementById(id);
const narrow = matchMedia("(max-width: 50rem)");

let prompt = null; // one for all requests that want the token
access.askForToken = (isWrong) =>
  (prompt ??= ask(isWrong ? "That was not the token" : "This server wants a token", { label: "Token, as the server printed it", type: "password" }).finally(
    () => (prompt = null),
  ));
access.onSilence = (waiting) => ($("silence").hidden = !waiting);

let settings = DEFAULTS; // of the session that is made next

const composer = new Composer({
  send,
  steer: () => inbox.steer(),
  stop: () => conversation.stop(),
  alert: (line) => showAlert(line),
  model: (model) => conversation.id && conversation.update({ model }),
});

const inbox = new Inbox($("inbox"), $("waiting"), {
  doing: (action) => conversation.doing(action),
  restore: (text, id) => composer.restore(text, [], id),
  running: () => conversation.running,
});

const conversation = new Conversation($("thread"), new Following($("messages"), $("thread"), $("jump")), {
  busy: (running) => composer.busy(running),
  status: (line) => ($("status").textContent = line),
  alert: showAlert,
  options: () => composer.options,
  inbox,
  changed(session) {
    const isLoading = Boolean(conversation.id) && !session;
    composer.loading(isLoading);
    $("settings").disabled = isLoading;
    $("empty").hidden = Boolean(conversation.id);
    $("actions").hidden = !session;
    $("title").textContent = session ? nameOf(session) : isLoading ? "…" : "New conversation";
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

/** Return the ids of the session and of the message that the address names. */
function addressed() {
  const [, id = null, messageId] = /^#\/([0-9a-f]{10})(?:\/(.+))?$/.exec(location.hash) ?? [];
  return { id, messageId };
}

async function openFromAddress() {
  const { id, messageId } = addressed();
  sidebar.select(id);
  showSidebar(false);
  if (id !== conversation.id || !conversation.session) {
    composer.open(id);
    await conversation.open(id).catch((error) => showAlert(error.message, error.code !== "SESSION_NOT_FOUND" && openFromAddress));
    if (!id) focusMessage();
  }
  if (messageId) conversation.point(messageId);
  else keepFocus();
}

/** Focus the message field if what had the focus is gone. */
function keepFocus() {
  if (document.activeElement.matches("body, [inert] *")) focusMessage();
}

function showSidebar(open) {
  const covers = open && narrow.matches;
  document.body.classList.toggle("drawn", covers);
  $("drawer").setAttribute("aria-expanded", String(covers));
  $("main").inert = covers;
  $("sidebar").inert = narrow.matches && !open;
  if (covers) $("close").focus();
}

/** Send a message; what is refused goes back to where it was written, and leaves no empty conversation. */
async function send(message, files) {
  await conversation.doing(async () => {
    const { id: from, leaving } = conversation;
    let id = from;
    let refusal;
    try {
      if (!from) {
        id = (await call("sessions", { body: { model: composer.model, ...settings } })).session_id;
        if (!leaving.signal.aborted) await begin(id);
      }
      refusal = conversation.id === id ? await conversation.send(message, files) : new Error("This was not sent: you left.");
    } catch (error) {
      refusal = error;
    }
    if (!refusal) return from || (settings = DEFAULTS); // of the next one
    if (id !== from && (await undo(id))) id = from;
    composer.restore(message, files, id);
    if (conversation.id === id) throw refusal;
  });
}

async function begin(id) {
  composer.moveTo(id);
  history.replaceState(null, "", `#/${id}`);
  sidebar.select(id);
  await conversation.open(id);
}

/** Delete a session that nothing was said in; return whether it is gone. */
async function undo(id) {
  try {
    await call(`sessions/${id}?force=true`, { method: "DELETE" });
  } catch (error) {
    if (error.code !== "SESSION_NOT_FOUND") return false; // the message is kept in it, and its refusal told
  }
  if (composer.id === id) composer.moveTo(null);
  await leave(id, "");
  return true;
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
  const given = await ask("Rename the conversation", { label: "Title; empty has the server find one", value: title ?? "", type: "text" });
  if (given !== null) await conversation.doing(() => changed(id, { title: given.trim() || null }));
}

async function remove(session) {
  if ((await ask(`Delete “${nameOf(session).slice(0, 100)}” for good?`)) === null) return;
  await conversation.doing(async () => {
    await call(`sessions/${session.session_id}?force=true`, { method: "DELETE" });
    await leave(session.session_id, "");
    await sidebar.refresh();
    keepFocus();
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
  const isTyped = event.isComposing || (event.key === "Escape" && event.target === $("search") && $("search").value); // clears it
  const shift = event.shiftKey && /\p{L}/u.test(event.key) ? "shift " : ""; // of letters and names: others may need it
  const key = `${shift}${event.key.length === 1 ? event.key.toUpperCase() : event.key}`;
  if (isCovered || isTyped) return;
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

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address is the conversation's
  $("message").focus();
});
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
    ["API documentation", () => location.assign(new URL("docs", API))],
  ]),
);
$("import").addEventListener("change", bringIn);
$("settings").addEventListener("click", () => conversation.doing(chooseSettings));
$("actions").addEventListener("click", () => openMenu($("actions"), actionsOf(conversation.session)));
window.addEventListener("hashchange", openFromAddress);
window.addEventListener("focus", () => $("no-model").hidden || composer.loadModels());
narrow.addEventListener("change", () => showSidebar(false));

composer.open(addressed().id);
await conversation.doing(() => sidebar.refresh()); // the first request: asks for the token if one is wanted
sidebar.follow().catch((error) => showAlert(error.message));
await openFromAddress();
await composer.loadModels();
document.body.dataset.ready = "true";
