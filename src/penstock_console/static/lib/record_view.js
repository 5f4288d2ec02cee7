// One record in full: key, value in every format, headers, neighbours.

import { html, useState } from "../vendor/htm-preact.js";
import { useData } from "./api.js";
import { bytes, digits, time, utc } from "./format.js";
import { useKeys } from "./keys.js";
import { Json, FieldValue } from "./record_parts.js";
import { api, link } from "./router.js";
import { visible, visibleLines } from "./text.js";
import { Command, Copy, Loaded, Pairs, Problem, Segments, Table } from "./ui.js";

const NAMES = { text: "Text", json: "JSON", hex: "Hex", avro: "Avro", protobuf: "Protobuf" };

// `onMove(offset)` shows another record of the same partition.
export function RecordView({ topic, partition, offset, onMove }) {
  const source = useData(api("topics", topic, "records", partition, offset), { every: 0 });
  const problem = source.problem;
  const previous = source.data?.previous ?? null;
  const next = source.data?.next ?? problem?.error?.next ?? null;
  useKeys("Record", [
    ["[", "Previous record", () => previous !== null && onMove(previous)],
    ["]", "Next record", () => next !== null && onMove(next)],
  ]);
  const neighbours = html`
    <div class="toolbar">
      <button type="button" class="small" disabled=${previous === null} onClick=${() => onMove(previous)}>Previous</button>
      <button type="button" class="small" disabled=${next === null} onClick=${() => onMove(next)}>Next</button>
      <span class="spring"></span>
      <a class="button small" href=${link("topics", topic, "records", partition, offset)}>Permalink</a>
      <a class="button small" href=${link("topics", topic, "produce", { copy: `${partition}:${offset}` })}>Produce a copy</a>
    </div>`;
  if (problem && source.data === null) {
    return html`${neighbours}<${Problem} problem=${problem} retry=${problem.status === 404 ? undefined : source.reload} />
      ${next !== null && html`<p>The next record is at <button type="button" class="small" onClick=${() => onMove(next)}>offset ${digits(next)}</button></p>`}`;
  }
  return html`${neighbours}<${Loaded} source=${source}>${(data) => html`<${Content} topic=${topic} data=${data} />`}</${Loaded}>`;
}

function Content({ topic, data }) {
  const { row } = data;
  const headers = [
    { key: "name", label: "Header", render: (each) => html`<bdi class="mono">${visible(each.name)}</bdi>` },
    { key: "value", label: "Value", isWide: true, render: (each) => html`<${FieldValue} field=${each.value} />` },
  ];
  return html`
    <${Pairs} items=${[
      ["Partition", digits(row.partition)],
      ["Offset", digits(row.offset)],
      ["Time", html`<time title=${utc(row.timestamp_ms)}>${time(row.timestamp_ms)}</time>`],
      ["Size", bytes(row.size)],
      data.limits && ["Offsets in this partition", `${digits(data.limits.earliest)} to ${digits(data.limits.latest)}`],
    ]} />
    <h3>Key <span class="about num">${bytes(row.key?.size ?? null)}</span></h3>
    <pre class="content-text" tabindex="0" aria-label="Key"><${FieldValue} field=${row.key} /></pre>
    <${Value} topic=${topic} data=${data} />
    ${row.headers.length > 0 && html`<h3>Headers</h3><${Table} label="Headers" columns=${headers} rows=${row.headers} />`}
    <h3>Equivalent command</h3><${Command} text=${data.command} />`;
}

function Value({ topic, data }) {
  const { row, formats } = data;
  const names = Object.keys(formats ?? {});
  const preferred = ["json", "avro", "protobuf", "text", "hex"].find((each) => names.includes(each)) ?? names[0];
  const [chosen, setChosen] = useState(null);
  const format = names.includes(chosen) ? chosen : preferred;
  const download = api("topics", topic, "records", row.partition, row.offset, "value");
  const text = formats?.[format] ?? "";
  return html`
    <div class="section-head">
      <h3>Value <span class="about num">${bytes(row.value?.size ?? null)}</span></h3>
      <div class="actions">
        ${names.length > 1 && html`<${Segments} label="Format of the value" options=${names.map((each) => [each, NAMES[each] ?? each])} value=${format} onSelect=${setChosen} />`}
        ${names.length > 0 && html`<${Copy} text=${text} label="Copy value" /><a class="button small" href=${download} download>Download</a>`}
      </div>
    </div>
    ${names.length === 0
      ? html`<pre class="content-text" tabindex="0" aria-label="Value"><${FieldValue} field=${row.value} /></pre>`
      : html`<pre class=${`content-text ${format === "hex" ? "hex" : ""}`} tabindex="0" aria-label="Value" data-format=${format}>${format === "text" || format === "hex" ? visibleLines(text) : html`<${Json} text=${text} />`}</pre>`}
    ${row.value?.cut && html`<p class="about">Shown is the beginning of ${bytes(row.value.size)}. <a href=${download} download>Download the whole value</a></p>`}`;
}
