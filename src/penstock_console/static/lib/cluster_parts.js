// Tables of nodes and of the quorum, for the overview and the page of nodes.

import { html } from "../vendor/htm-preact.js";
import { ago, count, digits } from "./format.js";
import { link } from "./router.js";
import { visible } from "./text.js";
import { Pairs, State, Table } from "./ui.js";

const NODES = [
  { key: "node", label: "Node", render: (each) => html`<a href=${link("nodes", each.node)}>${each.node}</a>` },
  { key: "address", label: "Address", isWide: true, isMinor: true, render: (each) => html`<span class="mono address">${visible(each.address ?? "–")}</span>` },
  { key: "state", label: "State", render: (each) => html`<${State}>${each.state}</${State}>` },
  { key: "leads", label: "Leads", align: "right", render: (each) => count(each.leads) },
  { key: "replicas", label: "Replicas", align: "right", render: (each) => count(each.replicas) },
  { key: "behind", label: "Behind", align: "right", render: (each) => html`<span class=${each.behind ? "warning-text" : ""}>${count(each.behind)}</span>` },
];

// `isBrief` leaves out what fits only a whole page.
export function Nodes({ nodes, isBrief = false }) {
  if (isBrief) return html`<${Table} label="Nodes" columns=${NODES.filter((each) => each.key !== "replicas")} rows=${nodes} rowKey=${(each) => each.node} />`;
  const hasRacks = nodes.some((each) => each.rack);
  const columns = hasRacks ? [...NODES.slice(0, 2), { key: "rack", label: "Rack", isMinor: true }, ...NODES.slice(2)] : NODES;
  return html`<${Table} label="Nodes" columns=${columns} rows=${nodes} rowKey=${(each) => each.node} />`;
}

const REPLICAS = [
  { key: "node", label: "Node" },
  { key: "role", label: "Role", isWide: true, render: (each) => html`<${State}>${each.role}</${State}>` },
  { key: "end_offset", label: "End offset", align: "right", render: (each) => digits(each.end_offset) },
  { key: "behind", label: "Behind", align: "right", render: (each) => count(each.behind) },
  { key: "last_fetch_ms", label: "Last fetch", align: "right", isMinor: true, render: (each) => ago(each.last_fetch_ms) },
];

export function Quorum({ quorum }) {
  return html`
    <${Table} label="Replicas of the metadata log" columns=${REPLICAS} rows=${quorum.replicas} rowKey=${(each) => each.node} />
    <${Pairs} items=${[["Leader", digits(quorum.leader)], ["Epoch", digits(quorum.epoch)], ["High watermark", digits(quorum.high_watermark)]]} />`;
}
