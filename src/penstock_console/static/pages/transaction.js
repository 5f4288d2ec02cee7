// One transactional id.

import { html } from "../vendor/htm-preact.js";
import { useData } from "../lib/api.js";
import { digits, time } from "../lib/format.js";
import { api, link } from "../lib/router.js";
import { visible } from "../lib/text.js";
import { AbortButton, timeout } from "../lib/transaction_parts.js";
import { Empty, Figures, Loaded, Page, Section, State, Table } from "../lib/ui.js";

const COLUMNS = [{ key: "name", label: "Partition", isWide: true, render: (each) => html`<a href=${link("topics", each.topic, "records", { partition: each.partition, isolation: "read_uncommitted" })}>${visible(`${each.topic}-${each.partition}`)}</a>` }];

function split(name) {
  const at = name.lastIndexOf("-");
  return { topic: name.slice(0, at), partition: name.slice(at + 1) };
}

export default function Transaction({ id }) {
  const source = useData(api("transactions", id));
  return html`
    <${Page} title=${id} crumbs=${[["Transactions", link("transactions")]]} actions=${source.data && html`<${AbortButton} transaction=${source.data} onDone=${source.reload} />`}>
      <${Loaded} source=${source}>${(data) => html`
        <${Figures} items=${[
          ["State", html`<${State}>${data.state}</${State}>`],
          ["Started", time(data.started_ms, { fraction: false })],
          ["Timeout", timeout(data)],
          ["Producer id", digits(data.producer_id)],
          ["Epoch", digits(data.epoch)],
          ["Coordinator", data.coordinator === null ? "–" : html`<a href=${link("nodes", data.coordinator)}>node ${data.coordinator}</a>`],
        ]} />
        <${Section} title="Partitions"><${Table} label="Partitions" columns=${COLUMNS} rows=${(data.partitions ?? []).map(split)} empty=${html`<${Empty} title="No partitions"><p>The transaction has written nothing yet.</p></${Empty}>`} /></${Section}>
      `}</${Loaded}>
    </${Page}>`;
}
