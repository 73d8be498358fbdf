// The messages that wait for the end of an answer: the same in every tab and after a reload.

import { call, chat } from "./client.js";
import { ask } from "./dialogs.js";
import { arrange, button, element, focusMessage } from "./elements.js";
import { openMenu } from "./menu.js";

const PAUSED = { cancelled: "You stopped an answer, so these wait. ", failed: "An answer failed, so these wait. " };
const GONE = { QUEUED_MESSAGE_TAKEN: "That message is being answered already.", QUEUED_MESSAGE_NOT_FOUND: "That message was deleted." };
const NOTES = { steer: "read before the next step", interrupt: "next" };

export class Inbox {
  /**
   * @param place The element that they are shown in.
   * @param news The element that tells screen readers what has changed.
   * @param hooks `doing(action)`, which says what fails; `restore(text, id)`: back into the field;
   *   and `running()`: whether an answer is written.
   */
  constructor(place, news, hooks) {
    this.place = place;
    this.news = news;
    this.hooks = hooks;
    this.line = element("p", { class: "note" });
    this.list = element("ol");
    place.append(this.line, this.list);
    this.asked = this.newest = 0; // numbers of refreshes
    this.open(null);
  }

  /** Show what waits in a session. */
  open(id) {
    this.id = id;
    this.items = new Map();
    this.sending = new Set(); // elements of messages that the server does not have yet
    this.latest = null; // a promise of the id of the message that this tab had wait last
    this.show({ paused: null, messages: [] });
  }

  /** Show it as it is now. */
  async refresh() {
    const { id } = this;
    if (!id) return;
    const number = ++this.asked;
    const inbox = await call(`chat/${id}/inbox`);
    if (id !== this.id || number < this.newest) return;
    this.newest = number;
    this.show(inbox);
  }

  show({ paused, error, messages }) {
    const hadFocus = this.place.contains(document.activeElement);
    this.paused = messages.length ? paused : null;
    const old = this.items;
    this.items = new Map();
    messages.forEach((message, index) => this.items.set(message.message_id, this.item(old.get(message.message_id), message, index)));
    const sending = [...this.sending].filter((each) => !this.items.has(each.messageId));
    arrange(this.list, [...this.items.values(), ...sending]);
    const line = this.paused ? `${error ? `${error.message} ` : ""}${PAUSED[this.paused] ?? "These wait. "}` : "";
    if ((this.line.firstChild?.data ?? "") !== line) this.line.replaceChildren(line, line && button("Resume", () => this.do(() => this.resume())));
    const steering = messages.filter((each) => each.when_busy === "steer").length;
    const news = messages.length ? `${line}${messages.length} waiting${steering ? `, ${steering} ${NOTES.steer}` : ""}` : "";
    if (this.news.textContent !== news) this.news.textContent = news;
    this.place.hidden = !this.list.children.length;
    if (hadFocus && !this.place.contains(document.activeElement)) focusMessage();
  }

  /** Return the element of a message: the one that is shown, with what is new in it. */
  item(item, message, index) {
    if (!item) {
      const id = `waiting-${encodeURIComponent(message.message_id)}`;
      const now = button("Send now", () => this.do(() => this.sendNow(item.message)), { title: "Stop the answer and send this", "aria-describedby": id });
      const menu = button("", () => openMenu(menu, this.actionsOf(item)), { class: "icon dots", "aria-haspopup": "menu", "aria-label": "Actions for this waiting message", "aria-describedby": id });
      item = element("li", {}, element("span", { id, class: "waiting", dir: "auto" }), now, menu);
    }
    const isSame = JSON.stringify(item.message) === JSON.stringify(message);
    Object.assign(item, { message, index });
    if (!isSame) item.firstChild.replaceChildren(...shown(message));
    return item;
  }

  actionsOf({ message, index }) {
    const change = (changes) => () => this.do(() => this.change(message, changes));
    const above = [...this.items.values()][index - 1]?.message;
    return [
      message.when_busy === "queue" && this.hooks.running() && ["Let the model read it now", change({ when_busy: "steer" })],
      ["Edit", () => this.do(() => this.edit(message))],
      above?.when_busy === message.when_busy && ["Move up", change({ position: index })],
      ["Delete", () => this.do(() => this.request(message, { method: "DELETE" }))],
    ];
  }

  /**
   * Have a message wait, after those that were sent before; return once it does. If the answer has
   * ended meanwhile, its turn has begun, and goes on without this.
   */
  add(body, files) {
    const { id, latest: before } = this;
    const item = element("li", { class: "pending" }, element("span", { class: "waiting", dir: "auto" }, ...shown({ content: body.message, attachments: files })));
    this.sending.add(item);
    this.list.append(item);
    this.place.hidden = false;
    this.latest = (async () => {
      try {
        await before?.catch(() => {}); // its sender has the error
        const events = chat(id, body);
        const { value } = await events.next();
        await events.return();
        return (item.messageId = value?.data.message_id);
      } finally {
        await this.refresh().catch(() => {}); // the next change asks again
        this.sending.delete(item);
        item.remove();
      }
    })();
    return this.latest;
  }

  /** Have the model read the message that was queued last here before its next step. */
  async steer() {
    const id = await this.latest?.catch(() => null);
    const { message } = this.items.get(id) ?? {};
    if (message?.when_busy === "queue") await this.do(() => this.change(message, { when_busy: "steer" }));
  }

  async sendNow(message) {
    await this.change(message, { when_busy: "interrupt" });
    if (this.paused) await this.resume();
  }

  async edit(message) {
    const { id } = this;
    const text = await ask("Edit the waiting message", { label: "Message", value: message.content });
    if (text === null || text === message.content) return;
    if (!text.trim() && !message.attachments.length) throw new Error("An empty message would say nothing: delete it instead.");
    try {
      await this.change(message, { content: text });
    } catch (error) {
      this.hooks.restore(text, id);
      throw new Error(`${error.message} What you wrote is in the message field.`);
    }
  }

  resume() {
    return call(`chat/${this.id}/inbox/resume`, { method: "POST" });
  }

  change(message, body) {
    return this.request(message, { method: "PUT", body });
  }

  async request({ message_id: messageId }, options) {
    try {
      await call(`chat/${this.id}/inbox/${encodeURIComponent(messageId)}`, options);
    } catch (error) {
      throw GONE[error.code] ? new Error(GONE[error.code]) : error;
    }
  }

  /** Do something, say it if that fails, and show what came of it. */
  do(action) {
    return this.hooks.doing(() => action().finally(() => this.refresh()));
  }
}

function shown({ content, attachments = [], when_busy: how }) {
  const names = attachments.map(({ name }) => name).join(", ");
  return [[content, names && `[${names}]`].filter(Boolean).join(" "), NOTES[how] ? element("small", {}, ` ${NOTES[how]}`) : ""];
}
