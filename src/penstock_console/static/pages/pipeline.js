// One pipeline: its flows with rates, lag, batch times and the last error.

import { html } from "../vendor/htm-preact.js";
import { useData } from "../lib/api.js";
import { ago, count, digits, duration, rate } from "../lib/format.js";
import { api, link } from "../lib/router.js";
import { visible, visibleLines } from "../lib/text.js";
import { Empty, Figures, Loaded, Notice, Page, Pairs, Section, State, Table } from "../lib/ui.js";

const FLOWS = [
  { key: "name", label: "Flow", isWide: true, render: (each) => html`<strong>${visible(each.name)}</strong>${each.target && each.target !== each.name ? html` <span class="about">to ${visible(each.target)}</span>` : ""}` },
  { key: "state", label: "State", render: (each) => html`<${State}>${each.state}</${State}>` },
  { key: "rows_per_s", label: "Rows/s", align: "right", render: (each) => rate(each.rows_per_s) },
  { key: "rows", label: "Rows", align: "right", isMinor: true, render: (each) => count(each.rows) },
  { key: "lag", label: "Lag", align: "right", render: (each) => count(each.lag) },
  { key: "batch", label: "Batch", align: "right", isMinor: true, render: (each) => digits(each.batch) },
  { key: "batch_ms", label: "Batch time", align: "right", isMinor: true, render: (each) => duration(each.batch_ms === null ? null : each.batch_ms / 1000) },
  { key: "counted", label: "Counted", isMinor: true, render: (each) => Object.entries(each.counted ?? {}).map(([name, value]) => html`<span class="num">${visible(name.replaceAll("_", " "))} ${count(value)}</span> `) },
];
const CHECKPOINT = [
  { key: "flow", label: "Flow", isWide: true },
  { key: "topic", label: "Topic", render: (each) => html`<a href=${link("topics", each.topic)}>${visible(each.topic)}</a>` },
  { key: "partition", label: "Partition", align: "right" },
  { key: "offset", label: "Offset", align: "right", isMinor: true, render: (each) => digits(each.offset) },
  { key: "end", label: "End", align: "right", isMinor: true, render: (each) => digits(each.end) },
  { key: "lag", label: "Lag", align: "right", render: (each) => count(each.lag) },
];

export default function Pipeline({ name }) {
  const source = useData(api("pipelines", name), { every: 3000 });
  return html`
    <${Page} title=${name} crumbs=${[["Pipelines", link("pipelines")]]}>
      <${Loaded} source=${source}>${(data) => {
        const failed = data.flows.filter((each) => each.error);
        const positions = data.flows.flatMap((flow) => (flow.checkpoint ?? []).map((each) => ({ ...each, flow: flow.name })));
        return html`
          ${data.problem && html`<${Notice} kind="error"><p>${visible(data.problem)}</p></${Notice}>`}
          <${Figures} items=${[
            ["State", html`<${State}>${data.state}</${State}>`],
            ["Flows", count(data.flows.length)],
            ["Rows per second", rate(data.flows.reduce((sum, each) => sum + (each.rows_per_s ?? 0), 0))],
            ["Lag", count(data.flows.reduce((sum, each) => sum + Number(each.lag ?? 0), 0))],
          ]} />
          ${failed.map((each) => html`<${Section} title=${`Error of ${each.name}`} key=${each.name}><pre class="content-text" tabindex="0" aria-label=${`Error of ${each.name}`}>${visibleLines(each.error)}</pre></${Section}>`)}
          <${Section} title="Flows"><${Table} label="Flows" columns=${FLOWS} rows=${data.flows} rowKey=${(each) => each.name} empty=${html`<${Empty} title="No flows yet"><p>The pipeline has not started a batch.</p></${Empty}>`} /></${Section}>
          ${positions.length > 0 && html`<${Section} title="Checkpoints"><${Table} label="Checkpoints" columns=${CHECKPOINT} rows=${positions} rowKey=${(each) => `${each.flow}/${each.topic}/${each.partition}`} /></${Section}>`}
          <${Pairs} items=${[["Mode", visible(data.mode ?? "–")], ["Process", digits(data.pid)], ["Updated", ago(data.updated_ms)], ["Storage", visible(data.storage ?? "–")], ["Folder", visible(data.folder ?? "–")]]} />`;
      }}</${Loaded}>
    </${Page}>`;
}
