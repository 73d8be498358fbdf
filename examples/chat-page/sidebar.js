// The list of conversations: newest first, searched in their contents, kept up to date by the server.

import { call, changes } from "./client.js";
import { element } from "./elements.js";

const PAGE = 50;

export class Sidebar {
  /**
   * @param list The element that the conversations are shown in.
   * @param more The button that shows the next page.
   * @param onChange Called with the id of a session that something changed of, or null: any may have.
   */
  constructor(list, more, onChange) {
    this.list = list;
    this.more = more;
    this.onChange = onChange;
    this.shown = PAGE;
    this.query = "";
    this.current = null;
    more.addEventListener("click", () => {
      this.shown += PAGE;
      this.refresh();
    });
  }

  search(query) {
    this.query = query.trim();
    return this.refresh();
  }

  select(id) {
    this.current = id;
    for (const each of this.list.querySelectorAll("button")) each.setAttribute("aria-current", String(each.dataset.id === id));
  }

  async refresh() {
    const turn = (this.turn = (this.turn ?? 0) + 1);
    const items = this.query ? await this.found() : await this.newest();
    if (turn === this.turn) this.list.replaceChildren(...items.map((each) => this.item(each)));
  }

  async newest() {
    const { sessions, next_cursor: next } = await call(`sessions?archived=false&limit=${this.shown}`);
    this.more.hidden = !next;
    const pinnedFirst = sessions.toSorted((one, other) => Boolean(other.pinned) - Boolean(one.pinned));
    return pinnedFirst.map((each) => ({
      id: each.session_id,
      title: nameOf(each),
      note: [[each.pinned && "pinned", each.state !== "idle" && each.state?.replaceAll("_", " "), each.model].filter(Boolean).join(" · ")],
    }));
  }

  async found() {
    const { results } = await call(`search?limit=${PAGE}&q=${encodeURIComponent(this.query)}`);
    this.more.hidden = true;
    return results.map((each) => ({ id: each.session_id, title: nameOf(each.session), note: each.pieces.map(({ text, match }) => (match ? element("mark", {}, text) : text)) }));
  }

  item({ id, title, note }) {
    const open = () => (location.hash = `#/${id}`);
    const name = element("button", { type: "button", "data-id": id, "aria-current": String(id === this.current), onclick: open }, title, element("small", {}, ...note));
    return element("li", {}, name);
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
    for (const id of touched) this.onChange(id);
    await this.refresh().catch(() => {}); // the next change asks again
  }
}

export function nameOf({ title, preview }) {
  return title || preview || "Empty conversation";
}
