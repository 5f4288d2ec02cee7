// One node: folders, settings, drain.

import { html } from "../vendor/htm-preact.js";
import { useData } from "../lib/api.js";
import { ChangeButton } from "../lib/change.js";
import { bytes, count } from "../lib/format.js";
import { api, link } from "../lib/router.js";
import { SettingsEditor } from "../lib/settings_editor.js";
import { visible } from "../lib/text.js";
import { Bar, Empty, Figures, Loaded, Page, Section, State, Table, Tag } from "../lib/ui.js";

const FOLDERS = [
  { key: "path", label: "Folder", isWide: true, render: (each) => html`<span class="mono">${visible(each.path)}</span>${each.cordoned ? html` <${Tag} tone="warning">cordoned</${Tag}>` : ""}${each.error ? html` <${Tag} tone="bad">${visible(each.error)}</${Tag}>` : ""}` },
  { key: "partitions", label: "Replicas", align: "right", render: (each) => count(each.partitions) },
  { key: "bytes", label: "Logs", align: "right", render: (each) => bytes(each.bytes) },
  { key: "usable_bytes", label: "Free", align: "right", isMinor: true, render: (each) => bytes(each.usable_bytes) },
  { key: "total_bytes", label: "Disk", align: "right", isMinor: true, render: (each) => bytes(each.total_bytes) },
  { key: "used", label: "Used", isMinor: true, render: (each) => (each.total_bytes ? html`<${Bar} share=${1 - each.usable_bytes / each.total_bytes} tone=${each.usable_bytes / each.total_bytes < 0.1 ? "warning" : ""} />` : "–") },
];

export default function Node({ node }) {
  const source = useData(api("nodes", node));
  const actions = html`<${ChangeButton} label="Drain" action="replicas.drain" title=${`Drain node ${node}`} toArguments=${() => ({ node: Number(node) })} onDone=${source.reload} />`;
  return html`
    <${Page} title=${`Node ${node}`} crumbs=${[["Nodes", link("nodes")]]} actions=${actions}>
      <${Loaded} source=${source}>${(data) => html`
        <${Figures} items=${[
          ["State", html`<${State}>${data.state}</${State}>`],
          ["Leads", count(data.leads)],
          ["Replicas", count(data.replicas)],
          ["Behind", count(data.behind)],
          data.rack && ["Rack", visible(data.rack)],
          ["Address", html`<span class="mono">${visible(data.address ?? "–")}</span>`],
        ]} />
        <${Section} title="Data folders"><${Table} label="Data folders" columns=${FOLDERS} rows=${data.log_dirs ?? []} rowKey=${(each) => each.path} empty=${html`<${Empty} title="The node does not answer"><p>Its folders are shown when it is up.</p></${Empty}>`} /></${Section}>
      `}</${Loaded}>
      <${Section} title="Settings"><${SettingsEditor} address=${api("nodes", node, "settings")} action="node.settings" name=${node} /></${Section}>
    </${Page}>`;
}
