// One conversation: shows its messages, runs and follows its turns, edits it.

import { CallCard } from "./call_card.js";
import { ApiError, call, chat, follow } from "./client.js";
import { ask, contextPanel, variantsPanel } from "./dialogs.js";
import { arrange, button, element } from "./elements.js";
import { LiveTurn, drawMessages } from "./message_view.js";

export class Conversation {
  /**
   * @param log The element with the messages.
   * @param following What keeps the end of the log in sight.
   * @param hooks `busy(running)`, `status(line)`, `alert(line, retry)` and `changed(session)`.
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
    const [session, { active_turn: active }] = await Promise.all([call(`sessions/${id}`), call(`sessions/${id}/status`)]);
    if (leaving.signal.aborted || this.running) return;
    this.show(session, active?.turn_id);
    if (active) this.run(follow(id, leaving.signal)); // goes on by itself
    else await this.showQuestions();
  }

  /** Draw the messages, but for what the running turn has said: its stream says that again. */
  show(session, turnId) {
    this.session = session;
    const messages = session.messages.filter((each) => !turnId || each.turn_id !== turnId || each.role === "user");
    arrange(this.log, drawMessages(messages, (message, index) => this.actionsOf(message, index)));
    this.hooks.changed(session);
  }

  /** Ask what a turn without a stream left to be answered. */
  async showQuestions() {
    const { confirmations } = await call(`chat/${this.id}/confirmations`);
    if (!confirmations.length || this.running) return;
    let open = confirmations.length;
    const article = element("article", { class: "assistant" }, element("h2", {}, "Waits for approval"));
    for (const each of confirmations) {
      const card = new CallCard(each.tool_name, each.arguments);
      card.ask(each, async (id, approved) => {
        await this.decide(id, approved);
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

  /** Say something; `prepare` returns the id of the session, which may be made by then. */
  async send(message, attachments) {
    const shown = { role: "user", content: message, attachments };
    const [article] = drawMessages([shown], () => []);
    article.classList.add("pending");
    this.log.append(article);
    this.following.toEnd();
    return this.run(chat(this.id, { message, attachments: attachments.map(({ id, name }) => ({ id, name })), ...this.options }, this.leaving.signal));
  }

  /** Answer the last user message, once more or after approvals. */
  resume() {
    return this.run(chat(this.id, { ...this.options }, this.leaving.signal));
  }

  /** Answer the last user message anew; the old answer is shown again if that comes to nothing. */
  regenerate() {
    const last = [...this.log.querySelectorAll("article.user")].at(-1);
    while (last?.nextElementSibling) last.nextElementSibling.remove();
    return this.resume();
  }

  async stop() {
    try {
      await call(`chat/${this.id}/cancel`, { method: "POST" });
    } catch (error) {
      if (error.code !== "NO_ACTIVE_TURN") this.hooks.alert(error.message); // else the answer was faster
    }
  }

  async decide(confirmationId, approved) {
    await call(`chat/${this.id}/confirm-tool`, { body: { confirmation_id: confirmationId, approved } });
  }

  /** Show a turn's events; then show the session, which is the truth. Return whether it went well. */
  async run(events) {
    const { leaving } = this;
    this.running = true;
    this.hooks.busy(true);
    this.hooks.alert("");
    const live = new LiveTurn(this.log, this.hooks.status, (id, approved) => this.decide(id, approved));
    let failure = null;
    try {
      for await (const event of events) {
        if (leaving.signal.aborted) break;
        live.handle(event);
        if (event.event === "tool_call_confirmation_required") this.showQuestion();
      }
      failure = live.failure;
    } catch (error) {
      failure = error instanceof ApiError ? error : { message: `The server can't be reached: ${error.message}`, retryable: true };
    }
    if (leaving.signal.aborted) return true;
    this.running = false;
    this.hooks.status("");
    await this.refresh().catch((error) => (failure ??= error));
    if (!this.running && !leaving.signal.aborted) this.hooks.busy(false);
    if (failure) {
      const retryable = failure.retryable ?? failure.details?.retryable;
      this.hooks.alert(failure.message, retryable ? () => this.resume() : null);
    }
    return !failure;
  }

  actionsOf(message, index) {
    const found = [];
    const isLast = !this.session.messages.slice(index + 1).some((each) => each.role !== "tool");
    if (message.role === "user") found.push(button("Edit", () => this.edit(message, index)));
    if (message.role === "assistant" && isLast) {
      const isBroken = message.cancelled || message.interrupted;
      found.push(button(isBroken ? "Try again" : "Regenerate", () => this.regenerate(), isBroken ? { class: "again" } : {}));
    }
    if (message.variant_count) found.push(button(`Other answers (${message.variant_count})`, () => this.chooseVariant(index)));
    if (message.role !== "system") found.push(button("Fork here", () => this.fork(index)));
    return found;
  }

  async edit(message, index) {
    const content = await ask("Edit the message", { label: "What follows it is cut off", value: message.content });
    if (content === null) return;
    await this.doing(async () => {
      await call(`sessions/${this.id}/messages/${index}`, { method: "PUT", body: { content, message_id: message.message_id } });
      await this.refresh();
      await this.regenerate();
    });
  }

  async chooseVariant(index) {
    await this.doing(async () => {
      const { messages } = await call(`sessions/${this.id}/messages?variants=true`);
      await variantsPanel(messages[index].variants, (variant) => drawMessages(variant, () => []), (id) =>
        this.doing(async () => {
          await call(`sessions/${this.id}/messages/${index}/variant`, { method: "PUT", body: { message_id: id } });
          await this.refresh();
        }),
      );
    });
  }

  async fork(index) {
    await this.doing(async () => {
      const body = index === undefined ? {} : { message_index: index };
      const copy = await call(`sessions/${this.id}/fork`, { body });
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
