// The list of topics: search, sort, create.

import { html } from "../vendor/htm-preact.js";
import { useData } from "../lib/api.js";
import { ChangeButton } from "../lib/change.js";
import { assignments, numberOrNull } from "../lib/form.js";
import { bytes, count, plural, rate } from "../lib/format.js";
import { api, link, useQuery } from "../lib/router.js";
import { visible } from "../lib/text.js";
import { Empty, Loaded, Page, Pager, Search, Table, Tag } from "../lib/ui.js";

const CREATE = [
  { name: "topic", label: "Name", isRequired: true, hint: "Letters, digits, '.', '_' and '-', up to 249 characters." },
  { name: "partitions", label: "Partitions", type: "number", min: 1, isHalf: true, placeholder: "the broker's default" },
  { name: "replication_factor", label: "Replication factor", type: "number", min: 1, isHalf: true, placeholder: "the broker's default" },
  { name: "settings", label: "Settings", type: "textarea", rows: 3, placeholder: "retention.ms=86400000", hint: "One name=value per line." },
];
const toTopic = (values) => ({
  topic: values.topic,
  partitions: numberOrNull(values.partitions),
  replication_factor: numberOrNull(values.replication_factor),
  settings: assignments(values.settings),
});

const COLUMNS = [
  {
    key: "topic", label: "Topic", sort: "name", isWide: true,
    render: (each) => html`<a href=${link("topics", each.topic)}>${visible(each.topic)}</a>
      ${each.internal ? html` <${Tag}>internal</${Tag}>` : ""}
      ${each.offline > 0 ? html` <${Tag} tone="bad">${each.offline} offline</${Tag}>` : ""}
      ${each.under_replicated > 0 ? html` <${Tag} tone="warning">${each.under_replicated} under-replicated</${Tag}>` : ""}`,
  },
  { key: "partitions", label: "Partitions", sort: "partitions", align: "right", isMinor: true, render: (each) => count(each.partitions) },
  { key: "replication_factor", label: "Replicas", sort: "replication_factor", align: "right", isMinor: true, render: (each) => count(each.replication_factor) },
  { key: "offsets", label: "Records", align: "right", render: (each) => count(each.offsets) },
  { key: "bytes", label: "Size", align: "right", isMinor: true, render: (each) => bytes(each.bytes) },
  { key: "rate", label: "Records/s", sort: "rate", align: "right", render: (each) => rate(each.rate) },
  { key: "open", label: html`<span class="hidden">Records</span>`, isMinor: true, render: (each) => html`<a href=${link("topics", each.topic, "records")} aria-label=${`Records of ${visible(each.topic)}`}>Records</a>` },
];

export default function Topics() {
  // The defaults are those of the API, so that the address of the data is the one that the server preloads.
  const [query, setQuery, changed] = useQuery({ search: "", internal: "false", sort: "name", order: "asc", state: "", page: "1", size: "50" });
  const source = useData(api("topics", changed));
  const sort = (name) => setQuery({ sort: name, order: query.sort === name && query.order === "asc" ? "desc" : name === query.sort ? "asc" : name === "rate" ? "desc" : "asc", page: 1 });
  const create = html`<${ChangeButton} label="Create topic" isPrimary shortcut="main" action="topic.create" fields=${CREATE} initial=${{}} toArguments=${toTopic} onDone=${source.reload} />`;
  const isFiltered = query.search || query.state;
  const empty = isFiltered
    ? html`<${Empty} title="No topic matches"><p><button type="button" onClick=${() => setQuery({ search: "", state: "", page: 1 })}>Clear the filter</button></p></${Empty}>`
    : html`<${Empty} title="This cluster has no topics yet"><p>Create one here, or let a producer create it by writing to it.</p></${Empty}>`;
  return html`
    <${Page} title="Topics" actions=${create}>
      <div class="toolbar">
        <${Search} label="Search topics" placeholder="Search topics" value=${query.search} onChange=${(search) => setQuery({ search, page: 1 })} />
        <label><span class="hidden">State</span><select value=${query.state} onChange=${(event) => setQuery({ state: event.target.value, page: 1 })}>
          ${[["", "All states"], ["offline", "Offline"], ["under_replicated", "Under-replicated"]].map(([id, text]) => html`<option value=${id} selected=${id === query.state}>${text}</option>`)}
        </select></label>
        <label class="check"><input type="checkbox" checked=${query.internal === "true"} onChange=${(event) => setQuery({ internal: String(event.target.checked), page: 1 })} /> Internal topics</label>
        <span class="spring"></span>
        ${source.data && html`<span class="about num">${plural(source.data.total, "topic")}</span>`}
      </div>
      <${Loaded} source=${source}>${(data) => html`
        <${Table} label="Topics" columns=${COLUMNS} rows=${data.topics} rowKey=${(each) => each.topic} sort=${query.sort} order=${query.order} onSort=${sort} empty=${empty} />
        <${Pager} page=${data.page} size=${data.size} total=${data.total} onPage=${(page) => setQuery({ page }, { push: true })} />
      `}</${Loaded}>
    </${Page}>`;
}
