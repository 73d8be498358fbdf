// Draws files of a message or a result: images as pictures, others as buttons that save them.

import { attachmentUrl, download } from "./client.js";
import { button, element } from "./elements.js";

/** Return a list of files, in an array; of none, an empty array. */
export function filesPart(attachments) {
  if (!attachments?.length) return [];
  const items = attachments.map((file) => element("li", {}, file.media_type.startsWith("image/") ? picture(file) : chip(file)));
  return [element("ul", { class: "files", "aria-label": "Attached files" }, items)];
}

function picture({ id, name, width, height }) {
  const image = element("img", { alt: name, width, height });
  const shown = button(image, () => enlarged(image), { class: "picture", "aria-label": `Show ${name} larger` });
  attachmentUrl(id).then(
    (url) => (image.src = url),
    () => shown.replaceWith(element("span", { class: "note" }, `${name} is not there any more`)),
  );
  return shown;
}

function enlarged({ src, alt }) {
  const dialog = element("dialog", { class: "picture", "aria-label": alt }, element("img", { src, alt }), button("Close", () => dialog.close()));
  dialog.addEventListener("click", ({ target }) => target === dialog && dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function chip({ id, name, size }) {
  const save = async () => {
    try {
      await download(`attachments/${encodeURIComponent(id)}`, name);
    } catch (error) {
      shown.after(element("span", { class: "failed" }, ` ${error.message}`));
    }
  };
  const shown = button([name, element("small", {}, ` ${sizeOf(size)}`)], save, { class: "chip", "aria-label": `Save ${name}` });
  return shown;
}

function sizeOf(bytes) {
  return bytes < 1_000_000 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}
