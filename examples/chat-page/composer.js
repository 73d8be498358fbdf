// The form that messages are written in: drafts that survive a reload, files, the model, reasoning.

import { attachmentUrl, call, upload } from "./client.js";
import { button, element, focusMessage } from "./elements.js";

const $ = (id) => document.getElementById(id);
const GROWS_BY_ITSELF = CSS.supports("field-sizing", "content");

export class Composer {
  /** @param hooks `send(message, files)`, `steer()`, `stop()`, `alert(line)` and `model(name)`, which was chosen. */
  constructor(hooks) {
    this.hooks = hooks;
    this.id = null;
    this.files = [];
    this.models = new Map();
    this.running = false;
    this.uploads = new Set(); // the `id` of the session that each is for, and its `element`
    this.isLoading = true;
    $("think").value = localStorage.getItem("think") ?? "";
    $("think").addEventListener("change", () => localStorage.setItem("think", $("think").value));
    $("model").addEventListener("change", () => this.modelChosen());
    $("stop").addEventListener("click", () => hooks.stop());
    $("composer").addEventListener("submit", (event) => this.submit(event));
    $("message").addEventListener("input", () => this.written());
    $("message").addEventListener("keydown", (event) => this.pressed(event));
    $("message").addEventListener("paste", (event) => {
      if (!event.clipboardData.types.includes("text/plain")) this.take(event, event.clipboardData); // tables come as a picture too
    });
    $("files").addEventListener("change", () => {
      const files = [...$("files").files];
      $("files").value = "";
      this.attach(files);
    });
    document.addEventListener("dragover", (event) => {
      if (!event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      $("composer").classList.add("over");
    });
    document.addEventListener("dragleave", (event) => event.relatedTarget ?? $("composer").classList.remove("over"));
    document.addEventListener("drop", (event) => {
      $("composer").classList.remove("over");
      this.take(event, event.dataTransfer);
    });
  }

  /** Show what was written for a session, or with null for a new one, and not sent. */
  open(id) {
    this.id = id;
    const { message, files } = draft(id);
    this.show(message, files);
  }

  /** Have what is in the form be for another session. */
  moveTo(id) {
    for (const each of this.uploads) if (each.id === this.id) each.id = id;
    forgetDraft(this.id);
    this.id = id;
    this.save();
  }

  /** Have this and nothing else in the form. */
  replace(message, files) {
    this.show(message, files);
    this.save();
  }

  /** Add to what is written for a session, which may not be the one that is open. */
  restore(message, files, id) {
    const { message: later, files: present } = id === this.id ? { message: $("message").value, files: this.files } : draft(id);
    const joined = [[message, later].filter(Boolean).join("\n\n"), [...present, ...files]];
    if (id === this.id) this.show(...joined);
    this.store(id, ...joined);
  }

  show(message, files) {
    $("message").value = message;
    this.files = files;
    this.fit();
    const waiting = [...this.uploads].filter((each) => each.id === this.id).map((each) => each.element);
    $("attached").replaceChildren(...files.map((file) => this.preview(file)), ...waiting);
    this.showWhetherToSend();
  }

  written() {
    this.fit();
    this.save();
    this.showWhetherToSend();
  }

  save() {
    this.store(this.id, $("message").value, this.files);
  }

  store(id, message, files) {
    if (!message && !files.length) return forgetDraft(id);
    try {
      localStorage.setItem(draftOf(id), JSON.stringify({ message, files }));
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
    if (event.key === "Enter" && sends && !event.isComposing && event.keyCode !== 229) event.repeat ? event.preventDefault() : this.submit(event);
  }

  submit(event) {
    event.preventDefault();
    const message = $("message").value;
    const { files } = this;
    if (!this.isWritten) return this.running && this.hooks.steer(); // Enter twice
    if ($("send").disabled) return;
    this.replace("", []);
    this.hooks.send(message, files);
  }

  take(event, { types, files }) {
    if (!types.includes("Files")) return;
    event.preventDefault();
    this.attach([...files]);
  }

  async attach(files) {
    const begun = files.map((file) => ({ file, id: this.id, element: element("li", { class: "note" }, `${file.name} …`) }));
    for (const each of begun) this.uploads.add(each);
    $("attached").append(...begun.map((each) => each.element));
    this.showWhetherToSend();
    for (const each of begun) {
      const { file } = each;
      try {
        const uploaded = await upload(file);
        this.restore("", [uploaded], each.id);
      } catch (error) {
        this.hooks.alert(`${file.name}: ${error.message}`);
      } finally {
        each.element.remove();
        this.uploads.delete(each);
        this.showWhetherToSend();
      }
    }
  }

  preview(file) {
    const name = element("span", { class: "name" }, file.name);
    const remove = button("", () => this.replace($("message").value, this.files.filter((each) => each !== file)), { class: "icon cross", "aria-label": `Remove ${file.name}` });
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
    this.showWhetherToSend();
  }

  /** Take input, or nothing that needs a conversation which is not there yet. */
  loading(isLoading) {
    this.isLoading = $("model").disabled = isLoading;
    this.showWhetherToSend();
  }

  showWhetherToSend() {
    const isUploading = [...this.uploads].some((each) => each.id === this.id);
    $("send").disabled = this.isLoading || isUploading || !$("no-model").hidden;
    $("send").ariaLabel = this.running ? "Send after this answer" : "Send";
    const isLeft = this.running && !this.isWritten && document.activeElement === $("send");
    $("send").hidden = this.running && !this.isWritten;
    if (isLeft) focusMessage();
  }

  get isWritten() {
    return Boolean($("message").value.trim() || this.files.length);
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

function draft(id) {
  return { message: "", files: [], ...JSON.parse(localStorage.getItem(draftOf(id)) ?? "{}") };
}

function draftOf(id) {
  return `draft ${id ?? "of a new conversation"}`;
}
