// Nodes, quorum, reassignments, and the settings of all brokers.

import { html } from "../vendor/htm-preact.js";
import { useData } from "../lib/api.js";
import { ChangeButton } from "../lib/change.js";
import { Nodes, Quorum } from "../lib/cluster_parts.js";
import { api, link, useQuery } from "../lib/router.js";
import { SettingsEditor } from "../lib/settings_editor.js";
import { visible } from "../lib/text.js";
import { Empty, Loaded, Notice, Page, Section, Table, Tabs } from "../lib/ui.js";

const REASSIGNMENTS = [
  { key: "topic", label: "Partition", isWide: true, render: (each) => html`<a href=${link("topics", each.topic, { tab: "replicas" })}>${visible(`${each.topic}-${each.partition}`)}</a>` },
  { key: "replicas", label: "Replicas", render: (each) => each.replicas.join(", ") },
  { key: "adding", label: "Adding", render: (each) => (each.adding ?? []).join(", ") || "–" },
  { key: "removing", label: "Removing", render: (each) => (each.removing ?? []).join(", ") || "–" },
];

export default function NodesPage() {
  const [query, setQuery] = useQuery({ tab: "nodes" });
  const source = useData(api("nodes"));
  const actions = html`
    <${ChangeButton} label="Spread replicas" shortcut="main" action="replicas.spread" toArguments=${() => ({})} onDone=${source.reload} />
    <${ChangeButton} label="Elect preferred leaders" action="leaders.elect" toArguments=${() => ({})} onDone=${source.reload} />`;
  return html`
    <${Page} title="Nodes" actions=${actions}>
      <${Tabs} label="Parts of the page" tabs=${[["nodes", "Nodes"], ["settings", "Settings of all brokers"]]} current=${query.tab} onSelect=${(tab) => setQuery({ tab })} />
      ${query.tab === "settings" ? html`<${SettingsEditor} address=${api("settings")} action="cluster.settings" />` : html`
        <${Loaded} source=${source}>${(data) => html`
          <${Nodes} nodes=${data.nodes} />
          <${Section} title="Quorum" about="The voters that replicate the metadata of the cluster.">${data.quorum ? html`<${Quorum} quorum=${data.quorum} />` : html`<${Notice}><p>The cluster does not describe its quorum.</p></${Notice}>`}</${Section}>
          <${Section} title="Reassignments"><${Table} label="Reassignments" columns=${REASSIGNMENTS} rows=${data.reassignments ?? []} empty=${html`<${Empty} title="No replicas are being moved"><p>“Spread replicas” plans moves that balance the nodes.</p></${Empty}>`} /></${Section}>
        `}</${Loaded}>`}
    </${Page}>`;
}
