// Makes the form of what a server asks a person, from its flat JSON schema.

import { element, visible } from "./elements.js";

const TYPES = { email: "email", uri: "url", date: "date" };

/** Return the form's fields, and `content()`: what they hold, without what was left empty. */
export function formOf({ properties, required = [] }) {
  const readers = [];
  const fields = Object.entries(properties).map(([name, schema]) => {
    const [control, read] = fieldOf(schema);
    readers.push([name, read]);
    const label = `${visible(schema.title ?? name)}${required.includes(name) ? " *" : ""}`;
    const about = schema.description ? element("small", {}, visible(schema.description)) : null;
    if (schema.type === "array") return element("fieldset", { "data-name": name }, element("legend", {}, label), control, about);
    const isCheck = schema.type === "boolean";
    const parts = isCheck ? [control, ` ${label} `, about] : [label, control, about];
    return element("label", { class: isCheck ? "check" : "field", "data-name": name }, parts);
  });
  const content = () => Object.fromEntries(readers.map(([name, read]) => [name, read()]).filter(([, value]) => value !== undefined));
  return { fields, content };
}

function fieldOf(schema) {
  if (schema.type === "boolean") {
    const box = element("input", { type: "checkbox" });
    box.checked = schema.default === true;
    return [box, () => box.checked];
  }
  if (schema.type === "array") {
    const boxes = choicesOf(schema.items).map(([value, title]) => {
      const box = element("input", { type: "checkbox", value });
      box.checked = (schema.default ?? []).includes(value);
      return [value, box, element("label", { class: "check" }, box, ` ${visible(title)}`)];
    });
    return [boxes.map(([, , label]) => label), () => boxes.filter(([, box]) => box.checked).map(([value]) => value)];
  }
  const choices = choicesOf(schema);
  if (choices.length) {
    const options = choices.map(([value, title]) => element("option", { value }, visible(title)));
    const list = element("select", {}, element("option", { value: "" }, ""), options);
    list.selectedIndex = choices.findIndex(([value]) => value === schema.default) + 1;
    return [list, () => choices[list.selectedIndex - 1]?.[0]];
  }
  const isNumber = schema.type !== "string";
  const type = isNumber ? "number" : (TYPES[schema.format] ?? "text");
  const field = element("input", { type, step: isNumber ? "any" : null, autocomplete: "off" });
  field.value = schema.default ?? "";
  return [field, () => (field.value === "" ? undefined : isNumber ? Number(field.value) : field.value)];
}

/** Return the values that can be chosen, each with its title. */
function choicesOf({ enum: values, enumNames: names = [], oneOf, anyOf }) {
  if (values) return values.map((value, index) => [value, names[index] ?? value]);
  return (oneOf ?? anyOf ?? []).map(({ const: value, title }) => [value, title ?? value]);
}
