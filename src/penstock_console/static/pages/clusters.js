// The list of clusters, if several are configured or the address names none of them.

import { html } from "../vendor/htm-preact.js";
import { visible } from "../lib/text.js";
import { Notice, Page, Table, Tag } from "../lib/ui.js";

export default function Clusters({ session, wanted }) {
  const columns = [
    { key: "name", label: "Cluster", isWide: true, render: (each) => html`<a href=${`/c/${encodeURIComponent(each.name)}/`}>${visible(each.name)}</a>` },
    { key: "bootstrap", label: "Address", render: (each) => html`<span class="mono">${visible(each.bootstrap)}</span>` },
    { key: "login", label: "Access", render: (each) => html`${each.login === "required" ? html`<${Tag}>login required</${Tag}>` : each.user ? visible(each.user) : "open"} ${each.read_only ? html`<${Tag} tone="warning">read-only</${Tag}>` : ""}` },
  ];
  return html`
    <${Page} title="Clusters">
      ${wanted && html`<${Notice} kind="warning"><p>There is no cluster named ${visible(wanted)}.</p></${Notice}>`}
      <${Table} label="Clusters" columns=${columns} rows=${session.clusters} rowKey=${(each) => each.name} />
    </${Page}>`;
}
