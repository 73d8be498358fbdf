// One conversation: shows its messages, runs and follows its turns, edits it.

import { CallCard } from "./call_card.js";
import { ApiError, call, chat, follow } from "./client.js";
import { ask, contextPanel, variantsPanel } from "./dialogs.js";
import { arrange, button, element, focusMessage } from "./elements.js";
import { LiveTurn, drawMessages } from "./message_view.js";
import { usageOfTurns } from "./usage.js";

export class Conversation {
  /**
   * @param log The element with the messages.
   * @param following What keeps the end of the log in sight.
   * @param hooks `busy(running)`, `status(line)`, `alert(line, retry)`, `changed(session)`, and
   *   `options()` of a chat request.
   */
  constructor(log, following, hooks) {
    this.log = log;
    this.following = following;
    this.hooks = hooks;
    this.id = null;
    this.session = null;
  }

  /** Show a session, or with null an empty page; follow its turn if one runs. */
  async open(id) {
    this.leaving?.abort();
    this.leaving = new AbortController();
    this.id = id;
    this.session = null;
    this.drawn = new Map();
    this.running = false;
    this.hooks.busy(false);
    this.hooks.status("");
    this.hooks.alert("");
    this.log.replaceChildren();
    this.following.toEnd();
    if (id) await this.refresh();
    else this.hooks.changed(null);
  }

  /** Show the session as it is now, unless a turn is being shown. */
  async refresh() {
    if (this.running || !this.id) return;
    const { id, leaving } = this;
    const page = await call(`sessions/${id}?view=page`);
    if (leaving.signal.aborted || this.running) return;
    this.show(page);
    if (page.position) this.run(follow(id, page.position, leaving.signal), page.active_turn.turn_id); // goes on by itself
    else this.showQuestions(page.confirmations);
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
    this.following.keep(() => arrange(this.log, units.flatMap((unit) => this.articlesOf(unit, old, usage))));
    this.hooks.changed(session);
    if (hadFocus && !this.log.contains(document.activeElement)) focusMessage();
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

  /** Ask what a turn without a stream left to be answered. */
  showQuestions(confirmations) {
    let open = confirmations.length;
    if (!open) return;
    const article = element("article", { class: "assistant" }, element("h2", {}, "Waits for approval"));
    for (const each of confirmations) {
      const card = new CallCard(each.tool_name, each.arguments);
      card.ask(each, async (id, approved, more) => {
        await this.decide(id, approved, more);
        if (--open === 0) this.resume();
      });
      article.append(card.element);
    }
    this.log.append(article);
    this.showQuestion();
  }

  /** Show the first question that waits, wherever the person was reading. */
  showQuestion() {
    const question = this.log.querySelector(".question");
    if (question) this.following.show(question);
  }

  /** Say something. Return the error if it was refused, and is not in the conversation. */
  async send(message, attachments) {
    const shown = { role: "user", content: message, attachments };
    const [article] = drawMessages([shown], () => []);
    article.classList.add("pending");
    this.log.append(article);
    this.following.toEnd();
    if (!this.session.preview) this.hooks.changed({ ...this.session, preview: message });
    const files = attachments.map(({ id, name }) => ({ id, name }));
    const refusal = await this.run(chat(this.id, { message, attachments: files, ...this.hooks.options() }, this.leaving.signal));
    return this.session?.messages.some((each) => each.content === message) ? null : refusal;
  }

  /** Answer the last user message, once more or after approvals. */
  resume() {
    return this.run(chat(this.id, this.hooks.options(), this.leaving.signal));
  }

  /** Go back to a message and answer it anew; what followed is shown again if that comes to nothing. */
  answerAgain(messageId, changes = {}) {
    const { articles } = [...this.drawn.values()].find(({ ids }) => ids.includes(messageId));
    while (articles[0].nextElementSibling) articles[0].nextElementSibling.remove();
    if (!changes.message) articles[0].remove();
    this.following.toEnd();
    return this.run(chat(this.id, { message_id: messageId, ...changes, ...this.hooks.options() }, this.leaving.signal));
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

  /** Show a turn's events; then show the session, which is the truth. Return why it did not begin. */
  async run(events, turnId) {
    const { leaving } = this;
    this.running = true;
    this.isStopping = false;
    this.hooks.busy(true);
    this.hooks.alert("");
    if (document.activeElement === document.body) focusMessage();
    const live = new LiveTurn(this.log, this.hooks.status, (id, approved, more) => this.decide(id, approved, more));
    let failure = null;
    let begun = false;
    try {
      for await (const event of events) {
        const isOther = !begun && turnId && event.data.turn_id !== turnId; // it began since the page was read
        if (leaving.signal.aborted || isOther) break;
        if (!begun && this.isStopping) this.stop();
        begun = true;
        live.handle(event);
        if (event.event === "tool_call_confirmation_required") this.showQuestion();
      }
      failure = live.failure;
    } catch (error) {
      failure = error instanceof ApiError ? error : { message: `The server can't be reached: ${error.message}`, retryable: true };
    }
    const refusal = begun ? null : failure;
    if (leaving.signal.aborted) return null;
    this.running = false;
    this.hooks.status("");
    await this.refresh().catch((error) => (failure ??= error));
    if (!this.running && !leaving.signal.aborted) this.hooks.busy(false);
    if (failure) {
      const retryable = failure.retryable ?? failure.details?.retryable;
      this.hooks.alert(failure.message, retryable ? () => this.resume() : null);
    }
    return refusal;
  }

  actionsOf(message, isLast) {
    const { message_id: id, role } = message;
    const found = [];
    if (role === "user") found.push(button("Edit", () => this.edit(message)));
    if (role === "assistant" && isLast) {
      const isBroken = message.cancelled || message.interrupted;
      found.push(button(isBroken ? "Try again" : "Regenerate", () => this.answerAgain(id), isBroken ? { class: "again" } : {}));
    }
    if (message.variant_count) found.push(button(`Other answers (${message.variant_count})`, () => this.chooseVariant(id)));
    if (role !== "system") found.push(button("Fork here", () => this.fork(id)), button("Delete", () => this.remove(id)));
    return found;
  }

  /** Return the path of a message: its id may be from an imported file, and leads nowhere else. */
  pathOf(id) {
    if (!/^[\w-]+$/.test(id)) throw new Error(`This is not the id of a message: ${id}`);
    return `sessions/${this.id}/messages/${id}`;
  }

  async edit({ content, message_id: id }) {
    const message = await ask("Edit the message", { label: "What follows it is cut off", value: content });
    if (message !== null) await this.doing(() => this.answerAgain(id, { message }));
  }

  async remove(id) {
    if ((await ask("Delete this message for good?")) === null) return;
    await this.doing(async () => {
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
