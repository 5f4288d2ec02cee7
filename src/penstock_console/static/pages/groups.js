// Consumer groups with their lag.

import { html } from "../vendor/htm-preact.js";
import { useData } from "../lib/api.js";
import { count, duration, plural } from "../lib/format.js";
import { clears, Trend } from "../lib/group_parts.js";
import { api, link, useQuery } from "../lib/router.js";
import { visible } from "../lib/text.js";
import { Empty, Loaded, Page, Pager, Search, State, Table } from "../lib/ui.js";

const COLUMNS = [
  { key: "group", label: "Group", isWide: true, render: (each) => html`<a href=${link("groups", each.group)}>${visible(each.group)}</a>` },
  { key: "state", label: "State", render: (each) => html`<${State}>${each.state}</${State}>` },
  { key: "type", label: "Type", isMinor: true },
  { key: "members", label: "Members", align: "right", isMinor: true, render: (each) => count(each.members) },
  { key: "topics", label: "Topics", isMinor: true, render: (each) => topics(each.topics) },
  { key: "lag", label: "Lag", align: "right", render: (each) => count(each.lag) },
  { key: "seconds", label: "Behind", align: "right", render: (each) => duration(each.seconds) },
  { key: "trend", label: "Trend", align: "right", isMinor: true, render: (each) => html`<${Trend} trend=${each.trend} />` },
  { key: "clear_s", label: "Clears", align: "right", isMinor: true, render: (each) => clears(each) },
];

function topics(names) {
  const some = (names ?? []).slice(0, 2);
  return html`${some.map((each, index) => html`${index > 0 ? ", " : ""}<a href=${link("topics", each)}>${visible(each)}</a>`)}${names?.length > 2 ? ` and ${names.length - 2} more` : ""}`;
}

export default function Groups() {
  const [query, setQuery] = useQuery({ search: "", page: "1", size: "50" });
  const source = useData(api("groups", query));
  const empty = query.search
    ? html`<${Empty} title="No group matches"><p><button type="button" onClick=${() => setQuery({ search: "", page: 1 })}>Clear the filter</button></p></${Empty}>`
    : html`<${Empty} title="There are no consumer groups"><p>A group appears when a consumer with a <code>group.id</code> subscribes or commits an offset.</p></${Empty}>`;
  return html`
    <${Page} title="Groups">
      <div class="toolbar">
        <${Search} label="Search groups" placeholder="Search groups" value=${query.search} onChange=${(search) => setQuery({ search, page: 1 })} />
        <span class="spring"></span>
        ${source.data && html`<span class="about num">${plural(source.data.total, "group")}</span>`}
      </div>
      <${Loaded} source=${source}>${(data) => html`
        <${Table} label="Groups" columns=${COLUMNS} rows=${data.groups} rowKey=${(each) => each.group} empty=${empty} />
        <${Pager} page=${data.page} size=${data.size} total=${data.total} onPage=${(page) => setQuery({ page }, { push: true })} />
      `}</${Loaded}>
    </${Page}>`;
}
