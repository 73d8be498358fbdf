// The list of conversations: by day, searched in their contents, kept up to date by the server.

import { call, changes } from "./client.js";
import { arrange, button, element } from "./elements.js";

const PAGE = 50;
const MOST_PINNED = 500;
const STATES = { running: "answering …", awaiting_approval: "waits for approval" };
const DAY = 86_400_000;

export class Sidebar {
  /**
   * @param list The element that the conversations are shown in.
   * @param more The button that shows the next page.
   * @param hooks `changed(id)`: something of a session is different, or with null of any; and
   *   `menu(opener, session)`: show what can be done with it.
   */
  constructor(list, more, hooks) {
    this.list = list;
    this.more = more;
    this.hooks = hooks;
    this.shown = PAGE;
    this.query = "";
    this.archived = false;
    this.current = null;
    this.nodes = new Map();
    more.addEventListener("click", () => {
      this.shown += PAGE;
      this.refresh();
    });
  }

  search(query) {
    this.query = query.trim();
    this.shown = PAGE;
    return this.refresh();
  }

  select(id) {
    this.current = id;
    for (const each of this.list.querySelectorAll("a")) this.mark(each);
  }

  mark(link) {
    if (link.dataset.id === this.current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }

  async refresh() {
    const turn = (this.turn = (this.turn ?? 0) + 1);
    const { groups, next } = this.query ? await this.found(turn) : await this.listed();
    if (turn !== this.turn) return; // a later question was asked meanwhile
    this.more.hidden = !next;
    const old = this.nodes;
    this.nodes = new Map();
    const nodes = [];
    for (const [name, items] of groups) {
      if (items.length) nodes.push(this.node(old, `group ${name}`, name, () => element("h2", {}, name)));
      for (const item of items) nodes.push(this.node(old, item.key, JSON.stringify(item), () => this.entry(item)));
    }
    arrange(this.list, nodes.length ? nodes : [element("p", { class: "note" }, this.query ? "Nothing is found." : "Nothing is here yet.")]);
  }

  /** Return the node of a key: the one that is shown, with what is new in it. */
  node(old, key, content, make) {
    let node = old.get(key);
    if (node?.content !== content) {
      const made = make();
      if (node) refill(node, made);
      else node = made;
      node.content = content;
    }
    this.nodes.set(key, node);
    return node;
  }

  async listed() {
    const page = (query) => call(`sessions?archived=${this.archived}&${query}`);
    const [{ sessions: pinned }, { sessions, next_cursor: next }] = await Promise.all([
      page(`pinned=true&limit=${MOST_PINNED}`),
      page(`pinned=false&limit=${this.shown}`),
    ]);
    const groups = new Map([["Pinned", pinned.map(itemOf)]]);
    for (const each of sessions) {
      const name = dayOf(new Date(each.updated_at));
      groups.set(name, [...(groups.get(name) ?? []), itemOf(each)]);
    }
    return { groups, next };
  }

  async found(turn) {
    const query = `search?limit=${PAGE}&q=${encodeURIComponent(this.query)}`;
    const results = [];
    let next = null;
    do { // a page may be short or empty while the server builds its index
      const page = await call(next ? `${query}&cursor=${encodeURIComponent(next)}` : query);
      results.push(...page.results);
      next = page.next_cursor;
    } while (next && results.length < this.shown && turn === this.turn);
    const items = results.map(({ session_id: id, message_id: message, pieces, session, role }) => ({
      ...itemOf({ ...session, session_id: id }),
      key: `${id} ${message ?? role}`,
      address: message ? `#/${id}/${message}` : `#/${id}`,
      pieces,
    }));
    return { groups: [["Found", items]], next };
  }

  entry({ id, address, title, note, time, session, pieces }) {
    const details = pieces ? pieces.map(({ text, match }) => (match ? element("mark", {}, text) : text)) : [note];
    const link = element(
      "a",
      { href: address, "data-id": id, title: new Date(time).toLocaleString() },
      element("span", { class: "name", dir: "auto" }, title),
      element("small", { class: session?.state }, ...details),
    );
    this.mark(link);
    const menu = button("", () => this.hooks.menu(menu, menu.parentElement.session), { class: "icon dots", "aria-haspopup": "menu", "aria-label": `Actions for ${title}` });
    const entry = element("div", { class: "entry" }, link, session.created_at ? menu : null);
    entry.session = session;
    return entry;
  }

  /** Follow what changes, in this tab or any other, for as long as the page is open. */
  async follow() {
    for await (const { data } of changes()) {
      this.touched = (this.touched ?? new Set()).add(data.session_id ?? null);
      this.soon ??= setTimeout(() => this.applyChanges(), 50); // changes come in groups
    }
  }

  async applyChanges() {
    const { touched } = this;
    this.soon = this.touched = null;
    for (const id of touched) this.hooks.changed(id);
    await this.refresh().catch(() => {}); // the next change asks again
  }
}

export function nameOf({ title, preview }) {
  return title || preview || "New conversation";
}

function itemOf(session) {
  const time = session.updated_at;
  const at = new Date(time);
  const when = dayOf(at) === "Today" ? at.toLocaleTimeString([], { timeStyle: "short" }) : at.toLocaleDateString([], { dateStyle: "medium" });
  const id = session.session_id;
  const waiting = session.queued ? `${session.queued} waiting · ` : "";
  return { key: id, id, address: `#/${id}`, title: nameOf(session), note: waiting + (STATES[session.state] ?? `${when} · ${session.model}`), time, session };
}

function dayOf(date) {
  const days = Math.round((new Date().setHours(0, 0, 0, 0) - new Date(date).setHours(0, 0, 0, 0)) / DAY);
  if (days < 1) return "Today";
  if (days === 1) return "Yesterday";
  return days < 7 ? "This week" : days < 31 ? "This month" : "Older";
}

/** Give an entry the content of a new one; its elements stay, and with them the focus. */
function refill(node, made) {
  if (node.children.length !== made.children.length || !node.classList.contains("entry")) return node.replaceChildren(...made.childNodes);
  const [link, menu] = node.children;
  const [newLink, newMenu] = made.children;
  link.replaceChildren(...newLink.childNodes);
  for (const { name, value } of newLink.attributes) link.setAttribute(name, value);
  if (!newLink.hasAttribute("aria-current")) link.removeAttribute("aria-current");
  menu?.setAttribute("aria-label", newMenu.getAttribute("aria-label"));
  node.session = made.session;
}
