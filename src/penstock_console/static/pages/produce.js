// A form that writes records, also as copies of an existing one.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { problemOf, useData } from "../lib/api.js";
import { openChange, useCluster } from "../lib/change.js";
import { Field, numberOrNull } from "../lib/form.js";
import { api, link, useQuery } from "../lib/router.js";
import { Notice, Page, Problem } from "../lib/ui.js";

const KINDS = [["text", "Text"], ["base64", "Base64"], ["null", "Null"]];
const COPY_SIZE_MAX = 1024 * 1024;
const EMPTY = { partition: "", keyKind: "null", key: "", valueKind: "text", value: "", headers: [], copies: "1" };

function content(kind, text) {
  if (kind === "null") return null;
  return kind === "base64" ? { base64: text.replace(/\s+/g, "") } : text;
}

function toArguments(topic, values) {
  return {
    topic,
    partition: numberOrNull(values.partition),
    key: content(values.keyKind, values.key),
    value: content(values.valueKind, values.value),
    headers: values.headers.filter((each) => each.name !== "").map((each) => [each.name, content(each.kind, each.value)]),
    copies: Number(values.copies || 1),
  };
}

// The bytes of a field as text if they are UTF-8, otherwise as Base64: a copy must not change them.
function asContent(bytes) {
  try {
    return { kind: "text", text: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes) };
  } catch {
    let binary = "";
    for (const each of bytes) binary += String.fromCharCode(each);
    return { kind: "base64", text: btoa(binary) };
  }
}

async function readField(topic, partition, offset, name, field) {
  if (!field || field.format === "null") return { kind: "null", text: "" };
  if (field.size > COPY_SIZE_MAX) throw new Error(`The ${name} is too large to edit here.`);
  const response = await fetch(api("topics", topic, "records", partition, offset, name));
  if (!response.ok) throw await problemOf(response);
  return asContent(new Uint8Array(await response.arrayBuffer()));
}

function useCopy(topic, copy, setValues) {
  const [partition, offset] = copy ? copy.split(":") : [null, null];
  const source = useData(copy ? api("topics", topic, "records", partition, offset) : null, { every: 0 });
  const [problem, setProblem] = useState(null);
  const row = source.data?.row;
  useEffect(() => {
    if (!row) return;
    const read = async () => {
      const key = await readField(topic, partition, offset, "key", row.key);
      const value = await readField(topic, partition, offset, "value", row.value);
      const headers = row.headers.map((each) => ({ name: each.name, kind: each.value.format === "null" ? "null" : "text", value: each.value.format === "null" ? "" : each.value.text }));
      setValues({ ...EMPTY, partition: "", keyKind: key.kind, key: key.text, valueKind: value.kind, value: value.text, headers });
    };
    read().catch((error) => setProblem({ message: error.message }));
  }, [row]);
  return { problem: problem ?? source.problem, hasCutHeader: row?.headers.some((each) => each.value.cut || each.value.format === "hex") ?? false };
}

export default function Produce({ topic }) {
  const [query] = useQuery({ copy: "" });
  const [values, setValues] = useState(EMPTY);
  const cluster = useCluster();
  const copy = useCopy(topic, query.copy, setValues);
  const set = (name) => (value) => setValues({ ...values, [name]: value });
  const setHeader = (index, changes) => setValues({ ...values, headers: values.headers.map((each, at) => (at === index ? { ...each, ...changes } : each)) });
  const submit = (event) => {
    event.preventDefault();
    openChange({ title: "Produce", action: "records.produce", toArguments: () => toArguments(topic, values) });
  };
  return html`
    <${Page} title="Produce" crumbs=${[["Topics", link("topics")], [topic, link("topics", topic)]]} actions=${html`<a class="button" href=${link("topics", topic, "records")}>Records</a>`}
      about=${query.copy ? `A copy of record ${query.copy}. Change what you want before you write it.` : null}>
      ${cluster?.read_only && html`<${Notice} kind="warning"><p>${cluster.read_only_reason ?? "The console is read-only."}</p></${Notice}>`}
      <${Problem} problem=${copy.problem} />
      ${copy.hasCutHeader && html`<${Notice} kind="warning"><p>A header is binary or too long to be copied exactly: check the headers.</p></${Notice}>`}
      <form onSubmit=${submit} class="produce">
        <div class="fields">
          <${Field} field=${{ name: "partition", label: "Partition", type: "number", min: 0, isHalf: true, placeholder: "by key" }} value=${values.partition} set=${set("partition")} />
          <${Field} field=${{ name: "copies", label: "Copies", type: "number", min: 1, max: 1000, isHalf: true, isRequired: true }} value=${values.copies} set=${set("copies")} />
          <${Field} field=${{ name: "key_kind", label: "Key as", type: "select", options: KINDS, isHalf: true, isRequired: true }} value=${values.keyKind} set=${set("keyKind")} />
          <${Field} field=${{ name: "key", label: "Key", isHalf: true, isMono: true, isDisabled: values.keyKind === "null" }} value=${values.key} set=${set("key")} />
          <${Field} field=${{ name: "value_kind", label: "Value as", type: "select", options: KINDS, isHalf: true, isRequired: true, hint: values.valueKind === "null" ? "A null value is a tombstone: it deletes the key in a compacted topic." : undefined }} value=${values.valueKind} set=${set("valueKind")} />
          <${Field} field=${{ name: "value", label: "Value", type: "textarea", rows: 10, isDisabled: values.valueKind === "null" }} value=${values.value} set=${set("value")} />
        </div>
        <h3>Headers</h3>
        ${values.headers.map((each, index) => html`
          <div class="header-row" key=${index}>
            <input aria-label=${`Name of header ${index + 1}`} placeholder="name" value=${each.name} onInput=${(event) => setHeader(index, { name: event.target.value })} />
            <select aria-label=${`Kind of header ${index + 1}`} value=${each.kind} onChange=${(event) => setHeader(index, { kind: event.target.value })}>${KINDS.map(([id, text]) => html`<option value=${id} selected=${id === each.kind}>${text}</option>`)}</select>
            <input class="mono grow" aria-label=${`Value of header ${index + 1}`} placeholder="value" disabled=${each.kind === "null"} value=${each.value} onInput=${(event) => setHeader(index, { value: event.target.value })} />
            <button type="button" aria-label=${`Remove header ${index + 1}`} onClick=${() => setValues({ ...values, headers: values.headers.filter((_, at) => at !== index) })}>Remove</button>
          </div>`)}
        <button type="button" class="small" onClick=${() => setValues({ ...values, headers: [...values.headers, { name: "", kind: "text", value: "" }] })}>Add header</button>
        <div class="form-foot"><button type="submit" class="primary" disabled=${cluster?.read_only}>Preview</button></div>
      </form>
    </${Page}>`;
}
