// Fields of records as text: never as HTML, with invisible characters as symbols.

import { html } from "../vendor/htm-preact.js";
import { visible, visibleLines } from "./text.js";

export function fieldText(field) {
  if (!field || field.format === "null") return "null";
  if (field.format === "empty") return "empty";
  return visible(field.text) + (field.cut ? "…" : "");
}

export function FieldValue({ field }) {
  const isAbsent = !field || field.format === "null" || field.format === "empty";
  return html`<bdi class=${isAbsent ? "null" : "mono"}>${fieldText(field)}</bdi>`;
}

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|\b(true|false|null)\b/g;
const COLOUR_CHARACTERS_MAX = 40000;

// Indented JSON with colours. Digits are those that the server sent.
export function Json({ text }) {
  const shown = visibleLines(text);
  if (shown.length > COLOUR_CHARACTERS_MAX) return shown;
  const parts = [];
  let at = 0;
  for (const found of shown.matchAll(TOKEN)) {
    if (found.index > at) parts.push(shown.slice(at, found.index));
    const [all, string, colon, number] = found;
    if (string !== undefined) {
      parts.push(html`<span class=${colon ? "json-key" : "json-string"}>${string}</span>`);
      if (colon) parts.push(colon);
    } else parts.push(html`<span class=${number === undefined ? "json-word" : "json-number"}>${all}</span>`);
    at = found.index + all.length;
  }
  parts.push(shown.slice(at));
  return parts;
}
