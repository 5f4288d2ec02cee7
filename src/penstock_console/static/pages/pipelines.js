// Spark pipelines that this console knows.

import { html } from "../vendor/htm-preact.js";
import { useData } from "../lib/api.js";
import { ago, count } from "../lib/format.js";
import { api, link } from "../lib/router.js";
import { visible } from "../lib/text.js";
import { Empty, Loaded, Page, State, Table } from "../lib/ui.js";

const COLUMNS = [
  { key: "name", label: "Pipeline", isWide: true, render: (each) => html`<a href=${link("pipelines", each.name)}>${visible(each.name)}</a>` },
  { key: "state", label: "State", render: (each) => html`<${State}>${each.state}</${State}>` },
  { key: "flows", label: "Flows", align: "right", render: (each) => count(each.flows) },
  { key: "failed", label: "Failed", align: "right", render: (each) => html`<span class=${each.failed ? "bad-text" : ""}>${count(each.failed)}</span>` },
  { key: "lag", label: "Lag", align: "right", render: (each) => count(each.lag) },
  { key: "updated_ms", label: "Updated", align: "right", isMinor: true, render: (each) => ago(each.updated_ms) },
];

export default function Pipelines() {
  const source = useData(api("pipelines"));
  return html`
    <${Page} title="Pipelines">
      <${Loaded} source=${source}>${(data) => html`
        <${Table} label="Pipelines" columns=${COLUMNS} rows=${data.pipelines} rowKey=${(each) => each.name}
          empty=${html`<${Empty} title="No pipelines are configured"><p>Start the console with <code>--pipeline DIR</code>, where DIR is the folder of a pipeline that <code>penstock pipeline run</code> runs.</p></${Empty}>`} />
      `}</${Loaded}>
    </${Page}>`;
}
