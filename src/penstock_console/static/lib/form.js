// Forms from a list of fields: {name, label, type, hint, options, placeholder, isRequired, rows}.

import { html } from "../vendor/htm-preact.js";
import { useId } from "./ui.js";

export function Fields({ fields, values, set }) {
  return html`<div class="fields">${fields.map((each) => html`<${Field} key=${each.name} field=${each} value=${values[each.name]} set=${(value) => set({ ...values, [each.name]: value })} />`)}</div>`;
}

export function Field({ field, value, set }) {
  const id = useId("field");
  const hint = field.hint ? `${id}-hint` : undefined;
  if (field.type === "checkbox") {
    return html`
      <div class="field check">
        <label for=${id}><input id=${id} name=${field.name} type="checkbox" checked=${Boolean(value)} aria-describedby=${hint} onChange=${(event) => set(event.target.checked)} /> ${field.label}</label>
        ${field.hint && html`<p class="hint" id=${hint}>${field.hint}</p>`}
      </div>`;
  }
  return html`
    <div class=${field.isHalf ? "field half" : "field"}>
      <label for=${id}>${field.label}${field.isRequired ? "" : html` <span class="optional">optional</span>`}</label>
      ${control(field, id, hint, value, set)}
      ${field.hint && html`<p class="hint" id=${hint}>${field.hint}</p>`}
    </div>`;
}

function control(field, id, hint, value, set) {
  const shared = { id, name: field.name, "aria-describedby": hint, required: field.isRequired ?? false, placeholder: field.placeholder, disabled: field.isDisabled };
  const input = (event) => set(event.target.value);
  if (field.type === "select") {
    return html`<select ...${shared} value=${value} onChange=${input}>${field.options.map(([key, text]) => html`<option key=${key} value=${key} selected=${key === value}>${text}</option>`)}</select>`;
  }
  if (field.type === "textarea") {
    return html`<textarea ...${shared} rows=${field.rows ?? 6} class="mono" spellcheck=${false} value=${value ?? ""} onInput=${input}></textarea>`;
  }
  return html`<input ...${shared} type=${field.type ?? "text"} class=${field.isMono ? "mono" : ""} min=${field.min} max=${field.max} spellcheck=${false} autocomplete=${field.autocomplete ?? "off"} value=${value ?? ""} onInput=${input} />`;
}

// "name=value" lines as an object. Throws a sentence about the first line that is wrong.
export function assignments(text) {
  const found = {};
  for (const line of String(text ?? "").split("\n").map((each) => each.trim()).filter(Boolean)) {
    const at = line.indexOf("=");
    if (at <= 0) throw new Error(`'${line}' is not of the form name=value.`);
    found[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return found;
}

export function numberOrNull(text) {
  return text === "" || text === null || text === undefined ? null : Number(text);
}

export function textOrNull(text) {
  return text === "" || text === undefined ? null : text;
}
