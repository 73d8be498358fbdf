// The form that messages are written in: drafts that survive a reload, files, the model, reasoning.

import { attachmentUrl, call, upload } from "./client.js";
import { button, element } from "./elements.js";

const $ = (id) => document.getElementById(id);
const GROWS_BY_ITSELF = CSS.supports("field-sizing", "content");

export class Composer {
  /** @param hooks `send(message, files)`, `stop()`, `alert(line)` and `model(name)`, which was chosen. */
  constructor(hooks) {
    this.hooks = hooks;
    this.id = null;
    this.files = [];
    this.models = new Map();
    this.running = false;
    this.uploads = 0;
    $("think").value = localStorage.getItem("think") ?? "";
    $("think").addEventListener("change", () => localStorage.setItem("think", $("think").value));
    $("model").addEventListener("change", () => this.modelChosen());
    $("stop").addEventListener("click", () => hooks.stop());
    $("composer").addEventListener("submit", (event) => this.submit(event));
    $("message").addEventListener("input", () => this.written());
    $("message").addEventListener("keydown", (event) => this.pressed(event));
    $("message").addEventListener("paste", (event) => this.take(event, event.clipboardData.files));
    $("files").addEventListener("change", () => {
      const files = [...$("files").files];
      $("files").value = "";
      this.attach(files);
    });
    document.addEventListener("dragover", (event) => {
      event.preventDefault();
      $("composer").classList.add("over");
    });
    document.addEventListener("dragleave", (event) => event.relatedTarget ?? $("composer").classList.remove("over"));
    document.addEventListener("drop", (event) => {
      event.preventDefault();
      $("composer").classList.remove("over");
      this.take(event, event.dataTransfer.files);
    });
  }

  /** Show what was written for a session, or with null for a new one, and not sent. */
  open(id) {
    this.id = id;
    const { message = "", files = [] } = JSON.parse(localStorage.getItem(draftOf(id)) ?? "{}");
    this.show(message, files);
  }

  /** Put a message into the form, as a draft. */
  restore(message, files) {
    this.show(message, files);
    this.save();
  }

  show(message, files) {
    $("message").value = message;
    this.files = files;
    this.fit();
    $("attached").replaceChildren(...files.map((file) => this.preview(file)));
  }

  written() {
    this.fit();
    this.save();
  }

  save() {
    const message = $("message").value;
    if (!message && !this.files.length) return forgetDraft(this.id);
    try {
      localStorage.setItem(draftOf(this.id), JSON.stringify({ message, files: this.files }));
    } catch (error) {
      this.hooks.alert(`This draft is lost if you leave it: ${error.message}`); // as one of megabytes
    }
  }

  fit() {
    if (GROWS_BY_ITSELF) return;
    $("message").style.height = "auto";
    $("message").style.height = `${$("message").scrollHeight}px`;
  }

  pressed(event) {
    const sends = event.shiftKey === matchMedia("(pointer: coarse)").matches; // phones have no Shift+Enter
    if (event.key === "Enter" && sends && !event.isComposing) this.submit(event);
  }

  submit(event) {
    event.preventDefault();
    const message = $("message").value;
    const { files } = this;
    if ($("send").disabled || (!message.trim() && !files.length)) return;
    this.restore("", []);
    this.hooks.send(message, files);
  }

  take(event, files) {
    if (!files.length) return;
    event.preventDefault();
    this.attach([...files]);
  }

  async attach(files) {
    for (const file of files) {
      const waiting = element("li", { class: "note" }, `${file.name} …`);
      $("attached").append(waiting);
      const { id } = this;
      this.uploads++;
      this.showWhetherToSend();
      try {
        const uploaded = await upload(file);
        if (id === this.id) this.restore($("message").value, [...this.files, uploaded]);
      } catch (error) {
        this.hooks.alert(`${file.name}: ${error.message}`);
      } finally {
        waiting.remove();
        this.uploads--;
        this.showWhetherToSend();
      }
    }
  }

  preview(file) {
    const name = element("span", { class: "name" }, file.name);
    const remove = button("", () => this.restore($("message").value, this.files.filter((each) => each !== file)), { class: "icon cross", "aria-label": `Remove ${file.name}` });
    const item = element("li", {}, name, remove);
    if (file.media_type.startsWith("image/")) {
      attachmentUrl(file.id).then(
        (url) => item.prepend(element("img", { src: url, alt: "" })),
        () => name.append(" is not there any more"),
      );
    }
    return item;
  }

  /** Offer the models there are; where there are none, say why, and offer no sending. */
  async loadModels() {
    let reason = "No model is installed: `ollama pull qwen3:4b` gets one. Or start the server with the API key of a provider.";
    try {
      const { models, unavailable = [] } = await call("models");
      reason = models.length ? "" : [reason, ...unavailable.map(({ message }) => message)].join(" ");
      this.models = new Map(models.map((each) => [each.name, each]));
      const shown = this.id && $("model").value;
      $("model").replaceChildren(...models.map(({ name }) => element("option", { value: name }, name)));
      this.showModel(shown || this.lastModel);
      this.showThinking();
    } catch (error) {
      reason = error.message;
    }
    $("no-model").replaceChildren(...(reason ? [reason, " ", button("Look again", () => this.loadModels())] : []));
    $("no-model").hidden = !reason;
    this.showWhetherToSend();
  }

  showModel(name) {
    if (!name) return;
    if (![...$("model").options].some((each) => each.value === name)) $("model").append(element("option", { value: name }, name));
    $("model").value = name;
    this.showThinking();
  }

  modelChosen() {
    localStorage.setItem("model", $("model").value);
    this.showThinking();
    this.hooks.model($("model").value);
  }

  showThinking() {
    const model = this.models.get($("model").value);
    $("think").hidden = model !== undefined && !model.capabilities.includes("thinking");
  }

  busy(running) {
    this.running = running;
    $("stop").hidden = !running;
    $("send").hidden = running;
    this.showWhetherToSend();
  }

  showWhetherToSend() {
    $("send").disabled = this.running || this.uploads > 0 || !$("no-model").hidden;
  }

  /** The model that was chosen last, if it is still there. */
  get lastModel() {
    const name = localStorage.getItem("model");
    return this.models.has(name) ? name : null;
  }

  /** The options of a chat request. */
  get options() {
    const { value, hidden } = $("think");
    if (!value || hidden) return {};
    return { think: { true: true, false: false }[value] ?? value };
  }

  /** The model that a new session is made with; none leaves it to the server. */
  get model() {
    return $("model").value || undefined;
  }
}

/** Forget what was written for a session, which is gone. */
export function forgetDraft(id) {
  localStorage.removeItem(draftOf(id));
}

function draftOf(id) {
  return `draft ${id ?? "of a new conversation"}`;
}
