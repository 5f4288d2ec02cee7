// What needs attention now, and the cluster at a glance.

import { html } from "../vendor/htm-preact.js";
import { useData } from "../lib/api.js";
import { History } from "../lib/chart.js";
import { count, digits, duration, rate } from "../lib/format.js";
import { api, link, useQuery } from "../lib/router.js";
import { visible } from "../lib/text.js";
import { Empty, Figures, Loaded, Page, Section, Table } from "../lib/ui.js";
import { Nodes, Quorum } from "../lib/cluster_parts.js";
import { Trend } from "../lib/group_parts.js";

const LINES = [{ label: "Records in per second", series: "cluster.rate", format: rate, isFilled: true }];

// The server sends an address that is relative to the cluster's page.
function target(relative) {
  return relative ? `${link()}${relative}` : null;
}

function Attention({ items }) {
  if (items.length === 0) return html`<div class="all-well"><span class="dot good" aria-hidden="true"></span>Nothing needs attention: all partitions have a leader and all replicas are in sync.</div>`;
  return html`<ul class="attention">${items.map((each) => html`
    <li key=${each.kind + each.text} class=${each.severity}>
      <span class=${`dot ${each.severity === "error" ? "bad" : "busy"}`} aria-hidden="true"></span>
      <span class="grow"><span class="hidden">${each.severity === "error" ? "Error: " : "Warning: "}</span>${visible(each.text)}</span>
      ${each.link && html`<a href=${target(each.link)} aria-label=${`Show: ${visible(each.text)}`}>Show</a>`}
    </li>`)}</ul>`;
}

const TOPICS = [
  { key: "topic", label: "Topic", isWide: true, render: (each) => html`<a href=${link("topics", each.topic)}>${visible(each.topic)}</a>` },
  { key: "rate", label: "Records/s", align: "right", render: (each) => rate(each.rate) },
];
const GROUPS = [
  { key: "group", label: "Group", isWide: true, render: (each) => html`<a href=${link("groups", each.group)}>${visible(each.group)}</a>` },
  { key: "lag", label: "Lag", align: "right", render: (each) => count(each.lag) },
  { key: "seconds", label: "Behind", align: "right", render: (each) => duration(each.seconds) },
  { key: "trend", label: "Trend", align: "right", isMinor: true, render: (each) => html`<${Trend} trend=${each.trend} />` },
];

export default function Overview() {
  const source = useData(api("overview"));
  const [query, setQuery] = useQuery({ window: "15m" });
  return html`
    <${Page} title="Overview">
      <${Loaded} source=${source}>${(data) => html`
        <${Attention} items=${data.attention} />
        <${Figures} items=${[
          ["Records in per second", rate(data.rates.records_in)],
          ["Topics", html`<a href=${link("topics")}>${count(data.counts.topics)}</a>`],
          ["Partitions", count(data.counts.partitions)],
          ["Groups", html`<a href=${link("groups")}>${count(data.counts.groups)}</a>`],
          ["Offline", html`<span class=${data.counts.offline ? "bad-text" : ""}>${count(data.counts.offline)}</span>`, "Partitions without a leader"],
          ["Under-replicated", html`<span class=${data.counts.under_replicated ? "warning-text" : ""}>${count(data.counts.under_replicated)}</span>`, "Partitions with fewer in-sync replicas than replicas"],
        ]} />
        <${Section} title="Throughput"><${History} lines=${LINES} label="Records in per second over time" window=${query.window} onWindow=${(window) => setQuery({ window })} /></${Section}>
        <div class="columns">
          <${Section} title="Busiest topics"><${Table} label="Busiest topics" columns=${TOPICS} rows=${data.busiest} rowKey=${(each) => each.topic} empty=${html`<${Empty} title="No records are being written"><p>Produce some on the page of a topic, or with <code>penstock produce</code>.</p></${Empty}>`} /></${Section}>
          <${Section} title="Groups with the most lag"><${Table} label="Groups with the most lag" columns=${GROUPS} rows=${data.groups} rowKey=${(each) => each.group} empty=${html`<${Empty} title="No consumer groups"><p>A group appears when a consumer with a <code>group.id</code> subscribes or commits.</p></${Empty}>`} /></${Section}>
        </div>
        <div class="columns">
          <${Section} title="Nodes"><${Nodes} nodes=${data.nodes} isBrief /></${Section}>
          ${data.quorum && html`<${Section} title="Quorum"><${Quorum} quorum=${data.quorum} /></${Section}>`}
        </div>
        <p class="about num foot">Cluster ${digits(data.cluster_id)}, controller ${digits(data.controller)}</p>
      `}</${Loaded}>
    </${Page}>`;
}
