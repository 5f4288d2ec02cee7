// Transactions, and those that hang.

import { html } from "../vendor/htm-preact.js";
import { useData } from "../lib/api.js";
import { ago, digits } from "../lib/format.js";
import { api, link, useQuery } from "../lib/router.js";
import { visible } from "../lib/text.js";
import { AbortButton, hangingColumns, partitionsOf } from "../lib/transaction_parts.js";
import { Empty, Loaded, Notice, Page, Search, Section, State, Table } from "../lib/ui.js";

const STATES = ["", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Empty"];

export default function Transactions() {
  const [query, setQuery] = useQuery({ state: "", search: "" });
  const source = useData(api("transactions", query));
  const columns = [
    { key: "id", label: "Transactional id", isWide: true, render: (each) => html`<a href=${link("transactions", each.id)}>${visible(each.id)}</a>` },
    { key: "state", label: "State", render: (each) => html`<${State}>${each.state}</${State}>` },
    { key: "partitions", label: "Partitions", isMinor: true, render: (each) => partitionsOf(each.partitions ?? []) },
    { key: "started_ms", label: "Started", align: "right", render: (each) => ago(each.started_ms) },
    { key: "producer_id", label: "Producer", align: "right", isMinor: true, render: (each) => `${digits(each.producer_id)} (${digits(each.epoch)})` },
    { key: "abort", label: html`<span class="hidden">Actions</span>`, align: "right", render: (each) => html`<${AbortButton} transaction=${each} onDone=${source.reload} />` },
  ];
  const isFiltered = query.state || query.search;
  return html`
    <${Page} title="Transactions">
      <div class="toolbar">
        <${Search} label="Search transactional ids" placeholder="Search transactional ids" value=${query.search} onChange=${(search) => setQuery({ search })} />
        <label><span class="hidden">State</span><select value=${query.state} onChange=${(event) => setQuery({ state: event.target.value })}>${STATES.map((each) => html`<option value=${each} selected=${each === query.state}>${each || "All states"}</option>`)}</select></label>
      </div>
      <${Loaded} source=${source}>${(data) => html`
        ${data.hanging_problem && html`<${Notice}><p>${visible(data.hanging_problem)}</p></${Notice}>`}
        ${data.hanging?.length > 0 && html`<${Section} title="Hanging" about="Open in the log, but unknown to every coordinator: readers of committed records wait for them until they are aborted."><${Table} label="Hanging transactions" columns=${hangingColumns(source.reload)} rows=${data.hanging} /></${Section}>`}
        <${Table} label="Transactions" columns=${columns} rows=${data.transactions} rowKey=${(each) => each.id}
          empty=${isFiltered
            ? html`<${Empty} title="No transaction matches"><p><button type="button" onClick=${() => setQuery({ state: "", search: "" })}>Clear the filter</button></p></${Empty}>`
            : html`<${Empty} title="There are no transactions"><p>They appear when a producer with a <code>transactional.id</code> connects.</p></${Empty}>`} />
      `}</${Loaded}>
    </${Page}>`;
}
