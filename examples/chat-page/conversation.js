// One conversation: shows its messages, runs and follows its turns, edits it.

import { CallCard } from "./call_card.js";
import { ApiError, call, chat, follow, forgetPictures } from "./client.js";
import { ask, contextPanel, variantsPanel } from "./dialogs.js";
import { arrange, button, element, focusMessage } from "./elements.js";
import { LiveTurn, drawMessages } from "./message_view.js";
import { usageOfTurns } from "./usage.js";

const ASKS = "tool_call_confirmation_required";
const INBOX = new Set(["message_queued", "message_taken"]);

export class Conversation {
  /**
   * @param log The element with the messages.
   * @param following What keeps the end of the log in sight.
   * @param hooks `busy(running)`, `status(line)`, `alert(line, retry)`, `changed(session)`,
   *   `options()` of a chat request, and `inbox`, what waits for the end of an answer.
   */
  constructor(log, following, hooks) {
    this.log = log;
    this.following = following;
    this.hooks = hooks;
    this.id = null;
    this.session = null;
    this.asked = this.newest = 0; // numbers of refreshes
  }

  /** Show a session, or with null an empty page; follow its turn if one runs. */
  async open(id) {
    this.leaving?.abort();
    const { signal } = (this.leaving = new AbortController());
    const { view } = this.following;
    view.ariaBusy = "true"; // what is said is read aloud, what was said before is not
    forgetPictures();
    this.id = id;
    this.session = null;
    this.drawn = new Map();
    this.edits = new Map(); // texts by message id that were refused
    this.questions = null;
    this.running = false;
    this.beginning = null;
    this.showBusy(false);
    this.hooks.status("");
    this.hooks.alert("");
    this.hooks.inbox.open(id);
    this.log.replaceChildren();
    this.following.toEnd();
    this.hooks.changed(null);
    try {
      if (id) await this.refresh();
    } finally {
      setTimeout(() => signal.aborted || (view.ariaBusy = "false"), 200); // once screen readers have seen it
    }
  }

  /** Show the session as it is now: of one whose turn is being shown, what waits. */
  async refresh() {
    this.hooks.inbox.refresh().catch(() => {}); // the next change asks again
    if (this.running || !this.id) return;
    const { id, leaving } = this;
    const { signal } = leaving;
    const number = ++this.asked;
    const page = await call(`sessions/${id}?view=page`, { signal }).catch((error) => {
      if (!signal.aborted) throw error;
    });
    if (signal.aborted || this.running || number < this.newest) return;
    this.newest = number;
    this.show(page);
    if (page.position) this.run(follow(id, page.position, signal), { turnId: page.active_turn.turn_id }); // goes on by itself
  }

  /** Show the session as it is now, with its turn if one runs; begin none. */
  async reload() {
    this.hooks.alert("");
    await this.refresh().catch((error) => this.hooks.alert(failureOf(error).message, () => this.reload()));
  }

  /** Draw the messages; those that are drawn already stay, and with them what is open in them. */
  show(session) {
    const hadFocus = this.log.contains(document.activeElement);
    this.session = session;
    const units = [];
    for (const message of session.messages) {
      if (message.role === "tool" && units.length) units.at(-1).messages.push(message);
      else units.push({ messages: [message], isLast: false });
    }
    if (units.length) units.at(-1).isLast = true;
    const old = this.drawn;
    this.drawn = new Map();
    const usage = usageOfTurns(session.messages);
    const articles = units.flatMap((unit) => this.articlesOf(unit, old, usage));
    const before = this.questions;
    const questions = this.questionsOf(session.position ? [] : session.confirmations);
    this.following.keep(() => arrange(this.log, [...articles, ...questions]));
    this.hooks.changed(session);
    if (hadFocus && !this.log.contains(document.activeElement)) focusMessage();
    if (this.questions && this.questions !== before) this.showQuestion();
  }

  /** Return the articles of a message and the results of its calls: those that are shown, if equal. */
  articlesOf({ messages, isLast }, old, usage) {
    const content = JSON.stringify([messages, isLast, usage.get(messages[0].turn_id)]);
    const key = messages[0].message_id;
    let drawn = old.get(key);
    if (drawn?.content !== content) {
      const articles = drawMessages(messages, (message) => this.actionsOf(message, isLast), usage);
      drawn = { content, articles, ids: messages.map((each) => each.message_id) };
    }
    this.drawn.set(key, drawn);
    return drawn.articles;
  }

  /** Show a message that was searched for. */
  point(messageId) {
    const [article] = [...this.drawn.values()].find(({ ids }) => ids.includes(messageId))?.articles ?? [];
    if (!article) return;
    for (const each of this.log.querySelectorAll(".hit")) each.classList.remove("hit");
    article.classList.add("hit");
    article.tabIndex = -1;
    article.focus({ preventScroll: true });
    this.following.show(article, article.clientHeight > this.following.view.clientHeight ? "start" : "center");
  }

  /** Return the article that asks what a turn without a stream left: the one that is shown, if it asks the same. */
  questionsOf(confirmations) {
    const ids = confirmations.map((each) => each.confirmation_id);
    if (ids.length && String([...(this.questions?.open ?? [])]) === String(ids)) return [this.questions.article];
    this.questions = null;
    if (!ids.length) return [];
    const open = new Set(ids);
    const article = element("article", { class: "assistant" }, element("h2", {}, "Waits for approval"));
    for (const each of confirmations) {
      const card = new CallCard(each.tool_name, each.arguments);
      card.ask(each, async (id, approved, more) => {
        await this.decide(id, approved, more);
        open.delete(id);
        if (!open.size && !each.outlasts_turn) this.resume(); // else the answer does, by itself
      });
      article.append(card.element);
    }
    this.questions = { open, article };
    return [article];
  }

  /** Show the first question that waits, wherever the person was reading. */
  showQuestion() {
    const question = this.log.querySelector(".question");
    if (question) this.following.show(question);
  }

  /**
   * Say something, which waits while an answer is written. Return the error if it was refused, and is
   * not in the conversation.
   */
  async send(message, attachments) {
    const { signal } = this.leaving;
    const files = attachments.map(({ id, name }) => ({ id, name }));
    const body = { message, attachments: files, when_busy: "queue", ...this.hooks.options() };
    if (this.running) await this.beginning; // of what was sent before
    if (signal.aborted) return new Error("This was not sent: you left.");
    if (this.running) {
      await this.hooks.inbox.add(body, attachments);
      return void (await this.refresh());
    }
    const shown = { role: "user", content: message, attachments };
    const [article] = drawMessages([shown], () => []);
    article.classList.add("pending");
    this.log.append(article);
    this.following.toEnd();
    if (!this.session.preview) this.hooks.changed({ ...this.session, preview: message });
    const old = new Set(this.session.messages.map((each) => each.message_id));
    const refusal = await this.run(chat(this.id, body, signal));
    if (!refusal || signal.aborted) return refusal;
    if (this.session.messages.some((each) => each.role === "user" && each.content === message && !old.has(each.message_id))) return null;
    article.remove();
    return refusal;
  }

  /** Answer the last user message, once more or after approvals. */
  async resume() {
    this.checkIdle();
    return this.run(chat(this.id, this.hooks.options(), this.leaving.signal));
  }

  /** Go back to a message and answer it anew; what followed is shown again if that comes to nothing. */
  async answerAgain(messageId, changes = {}) {
    this.checkIdle();
    const { articles } = [...this.drawn.values()].find(({ ids }) => ids.includes(messageId));
    while (articles[0].nextElementSibling) articles[0].nextElementSibling.remove();
    if (!changes.message) articles[0].remove();
    this.following.toEnd();
    const events = chat(this.id, { message_id: messageId, ...changes, ...this.hooks.options() }, this.leaving.signal);
    return this.run(events, { again: () => (changes.message ? this.sendEdit(messageId, changes.message) : this.answerAgain(messageId)) });
  }

  /** Refuse what would be drawn into the answer that is being written. */
  checkIdle() {
    if (this.running) throw new Error("Stop the answer first.");
  }

  showBusy(running) {
    this.log.classList.toggle("busy", running);
    this.hooks.busy(running);
  }

  async stop() {
    this.isStopping = true; // a turn that has not begun yet is stopped when it does
    try {
      await call(`chat/${this.id}/cancel`, { method: "POST" });
    } catch (error) {
      if (error.code !== "NO_ACTIVE_TURN") this.hooks.alert(error.message); // else the answer was faster
    }
  }

  async decide(confirmationId, approved, more = {}) {
    await call(`chat/${this.id}/confirm-tool`, { body: { confirmation_id: confirmationId, approved, ...more } });
  }

  /** Return whether a request for approval, which a stream repeats, is open still. */
  async isOpen({ confirmation_id: id }, signal) {
    const { confirmations } = await call(`chat/${this.id}/confirmations`, { signal });
    return confirmations.some((each) => each.confirmation_id === id);
  }

  /**
   * Show a turn's events; then show the session, which is the truth. Return why it did not begin:
   * `again()` tries that again. `turnId` is of a turn that began before.
   */
  async run(events, { turnId = null, again = () => this.resume() } = {}) {
    const { leaving } = this;
    this.running = true;
    this.newest = ++this.asked; // pages that were asked for before are old
    this.isStopping = false;
    const { promise, resolve: begin } = Promise.withResolvers();
    this.beginning = promise;
    this.showBusy(true);
    this.hooks.alert("");
    if (document.activeElement.matches("body, .edits")) focusMessage();
    const live = new LiveTurn(this.log, this.hooks.status, (id, approved, more) => this.decide(id, approved, more));
    let failure = null;
    let begun = false;
    let isLost = false;
    try {
      for await (const event of events) {
        const isOther = event.event === "turn_started" && (begun || (turnId && event.data.turn_id !== turnId)); // it began since
        if (leaving.signal.aborted || isOther || (turnId && this.lacksQuestion(event))) break;
        if (!begun && this.isStopping) this.stop();
        begun = true;
        begin();
        if (INBOX.has(event.event)) this.hooks.inbox.refresh().catch(() => {});
        if (event.event === ASKS && turnId && !(await this.isOpen(event.data, leaving.signal))) continue;
        handle(live, event);
        if (event.event === ASKS) this.showQuestion();
      }
      failure = live.failure;
    } catch (error) {
      failure = failureOf(error);
      isLost = begun || failure !== error; // the turn may run
    }
    begin();
    const refusal = begun ? null : failure;
    if (leaving.signal.aborted) return null;
    this.running = false;
    this.hooks.status("");
    await this.refresh().catch((error) => (failure ??= error));
    if (leaving.signal.aborted) return refusal;
    if (!this.running) this.showBusy(false);
    if (failure && !(isLost && this.running)) {
      const isRetryable = failure.retryable ?? failure.details?.retryable;
      const retry = isRetryable ? () => this.doing(refusal ? again : () => this.resume()) : null;
      this.hooks.alert(failure.message, isLost ? () => this.reload() : retry);
    }
    return refusal;
  }

  /** Return whether a turn answers a message that the page does not have: it was read as the turn began. */
  lacksQuestion({ event, data }) {
    return event === "turn_started" && data.user_message_id && this.session.messages.every((each) => each.message_id !== data.user_message_id);
  }

  actionsOf(message, isLast) {
    const { message_id: id, role } = message;
    const found = [];
    if (role === "user") found.push(button("Edit", () => this.edit(message), { class: "edits" }));
    if (role === "assistant" && isLast) {
      const isBroken = message.cancelled || message.interrupted;
      found.push(button(isBroken ? "Try again" : "Regenerate", () => this.doing(() => this.answerAgain(id)), { class: isBroken ? "edits again" : "edits" }));
    }
    if (message.variant_count) found.push(button(`Other answers (${message.variant_count})`, () => this.chooseVariant(id)));
    if (role !== "system") found.push(button("Fork here", () => this.fork(id)), button("Delete", () => this.remove(id), { class: "edits" }));
    return found;
  }

  /** Return the path of a message: its id may be from an imported file, and leads nowhere else. */
  pathOf(id) {
    if (!/^[\w-]+$/.test(id)) throw new Error(`This is not the id of a message: ${id}`);
    return `sessions/${this.id}/messages/${id}`;
  }

  async edit({ content, message_id: id }) {
    const message = await ask("Edit the message", { label: "What follows it is cut off", value: this.edits.get(id) ?? content });
    if (message !== null) await this.doing(() => this.sendEdit(id, message));
  }

  /** Change a message and answer it anew; what is refused is what editing it begins with. */
  async sendEdit(id, message) {
    const { edits } = this;
    edits.set(id, message);
    if (!(await this.answerAgain(id, { message }))) edits.delete(id);
  }

  async remove(id) {
    if ((await ask("Delete this message for good?")) === null) return;
    await this.doing(async () => {
      this.checkIdle();
      await call(this.pathOf(id), { method: "DELETE" });
      await this.refresh();
    });
  }

  async chooseVariant(id) {
    await this.doing(async () => {
      const { messages } = await call(`sessions/${this.id}/messages?variants=true`);
      const { variants } = messages.find((each) => each.message_id === id);
      await variantsPanel(variants, (variant) => drawMessages(variant, () => []), (chosen) =>
        this.doing(async () => {
          await call(`${this.pathOf(id)}/variant`, { method: "PUT", body: { message_id: chosen } });
          await this.refresh();
        }),
      );
    });
  }

  async fork(messageId) {
    await this.doing(async () => {
      const copy = await call(`sessions/${this.id}/fork`, { body: messageId ? { message_id: messageId } : {} });
      location.hash = `#/${copy.session_id}`;
    });
  }

  async update(changes) {
    await this.doing(async () => {
      await call(`sessions/${this.id}`, { method: "PATCH", body: changes });
      await this.refresh();
    });
  }

  showContext() {
    return this.doing(async () => contextPanel(await call(`sessions/${this.id}/context`)));
  }

  /** Do something, and say it if that fails. */
  async doing(action) {
    try {
      this.hooks.alert("");
      await action();
    } catch (error) {
      this.hooks.alert(error.message);
    }
  }
}

/** Draw an event; an error of that is the page's, and no reason to leave the stream. */
function handle(live, event) {
  try {
    live.handle(event);
  } catch (error) {
    reportError(error);
  }
}

function failureOf(error) {
  return error instanceof ApiError ? error : { message: `The server can't be reached: ${error.message}`, retryable: true };
}
