// One topic: partitions, replica map, settings, groups, skew.

import { html } from "../vendor/htm-preact.js";
import { useData } from "../lib/api.js";
import { ChangeButton } from "../lib/change.js";
import { History } from "../lib/chart.js";
import { numberOrNull } from "../lib/form.js";
import { bytes, count, digits, percent, plural, rate } from "../lib/format.js";
import { api, go, link, useQuery } from "../lib/router.js";
import { SettingsEditor } from "../lib/settings_editor.js";
import { visible } from "../lib/text.js";
import { Empty, Figures, Loaded, Page, Section, Segments, State, Table, Tabs, Tag } from "../lib/ui.js";

const TABS = [["partitions", "Partitions"], ["replicas", "Replicas"], ["settings", "Settings"], ["groups", "Groups"], ["skew", "Skew"]];

export default function Topic({ topic }) {
  const [query, setQuery] = useQuery({ tab: "partitions", window: "15m", since: "1h" });
  const source = useData(api("topics", topic));
  const data = source.data;
  const actions = html`
    <a class="button primary" data-shortcut="main" href=${link("topics", topic, "records")}>Records</a>
    <a class="button" href=${link("topics", topic, "produce")}>Produce</a>
    <${Changes} topic=${topic} data=${data} reload=${source.reload} />`;
  return html`
    <${Page} title=${topic} crumbs=${[["Topics", link("topics")]]} actions=${actions}
      about=${data && (data.internal || data.masked?.length || data.dead_letters) ? html`<${About} data=${data} />` : null}>
      <${Loaded} source=${source}>${(found) => html`
        <${Figures} items=${[
          ["Records per second", rate(found.rate)],
          ["Records", count(total(found.partitions, "offsets")), "Latest minus earliest offset: more than the number of records if the topic is compacted or has transactions"],
          ["Size", bytes(found.bytes), "One copy, without the other replicas"],
          ["Partitions", count(found.partitions.length)],
        ]} />
        <section><${Tabs} label="Parts of the topic" tabs=${TABS} current=${query.tab} onSelect=${(tab) => setQuery({ tab })} />
          ${query.tab === "partitions" && html`<${Partitions} topic=${topic} data=${found} />
            <${Section} title="Throughput"><${History} lines=${[{ label: "Records in per second", series: `topic.rate:${topic}`, format: rate, isFilled: true }]} label=${`Records per second into ${topic} over time`} window=${query.window} onWindow=${(window) => setQuery({ window })} /></${Section}>`}
          ${query.tab === "replicas" && html`<${Replicas} topic=${topic} data=${found} reload=${source.reload} />`}
          ${query.tab === "settings" && html`<${SettingsEditor} address=${api("topics", topic, "settings")} action="topic.settings" name=${topic} />`}
          ${query.tab === "groups" && html`<${Groups} data=${found} />`}
          ${query.tab === "skew" && html`<${Skew} topic=${topic} since=${query.since} onSince=${(since) => setQuery({ since })} />`}
        </section>
      `}</${Loaded}>
    </${Page}>`;
}

function total(rows, key) {
  return rows.reduce((sum, each) => sum + Number(each[key] ?? 0), 0);
}

function About({ data }) {
  return html`${data.internal && html`<${Tag}>internal</${Tag}> `}
    ${data.masked?.length > 0 && html`Masked: ${data.masked.map((each) => html`<code>${visible(each)}</code> `)}`}
    ${data.dead_letters && html`Dead letters: <a href=${link("dead-letters", data.dead_letters)}>${visible(data.dead_letters)}</a>`}`;
}

function Changes({ topic, data, reload }) {
  const choices = [["", "All partitions"], ...(data?.partitions ?? []).map((each) => [String(each.partition), `Partition ${each.partition}`])];
  return html`
    <${ChangeButton} label="Add partitions" action="topic.add-partitions" initial=${{ partitions: String((data?.partitions.length ?? 0) + 1) }}
      fields=${[{ name: "partitions", label: "New number of partitions", type: "number", min: 1, isRequired: true, hint: "Partitions cannot be removed. Records with a key go to other partitions than before." }]}
      toArguments=${(values) => ({ topic, partitions: Number(values.partitions) })} onDone=${reload} />
    <${ChangeButton} label="Delete records" action="topic.delete-records" initial=${{ partition: "", before: "" }}
      fields=${[
        { name: "partition", label: "Partition", type: "select", options: choices, isRequired: true },
        { name: "before", label: "Delete records before", isRequired: true, placeholder: "latest", hint: "An offset, 'latest' for all, an age such as 7d, or a time such as 2026-01-31T12:00:00Z." },
      ]}
      toArguments=${(values) => ({ topic, partition: numberOrNull(values.partition), before: values.before })} onDone=${reload} />
    <${ChangeButton} label="Delete topic" isDanger action="topic.delete" toArguments=${() => ({ topic })} onDone=${() => go(link("topics"))} />`;
}

function Partitions({ topic, data }) {
  const most = Math.max(1, ...data.partitions.map((each) => Number(each.offsets ?? 0)));
  const columns = [
    { key: "partition", label: "Partition", render: (each) => html`<a href=${link("topics", topic, "records", { partition: each.partition })}>${each.partition}</a>` },
    { key: "leader", label: "Leader", render: (each) => (each.leader === null || each.leader < 0 ? html`<${State}>offline</${State}>` : html`<a href=${link("nodes", each.leader)}>${each.leader}</a>`) },
    { key: "isr", label: "In sync", render: (each) => html`<span class=${each.isr.length < each.replicas.length ? "warning-text" : ""}>${each.isr.length} of ${each.replicas.length}</span>` },
    { key: "leader_epoch", label: "Epoch", align: "right", isMinor: true, render: (each) => digits(each.leader_epoch) },
    { key: "earliest", label: "Earliest", align: "right", isMinor: true, render: (each) => digits(each.earliest) },
    { key: "latest", label: "Latest", align: "right", isMinor: true, render: (each) => digits(each.latest) },
    { key: "offsets", label: "Records", align: "right", render: (each) => count(each.offsets) },
    { key: "share", label: "Share", isMinor: true, render: (each) => html`<span class="bar" aria-hidden="true"><span style=${{ width: `${(Number(each.offsets ?? 0) / most) * 100}%` }}></span></span>` },
    { key: "bytes", label: "Size", align: "right", render: (each) => bytes(each.bytes) },
  ];
  return html`<${Table} label="Partitions" columns=${columns} rows=${data.partitions} rowKey=${(each) => each.partition} />`;
}

const MARKS = { leader: ["L", "leader"], sync: ["✓", "in sync"], late: ["!", "not in sync"], gone: ["×", "offline"] };

function mark(partition, node) {
  if (!partition.replicas.includes(node)) return null;
  if (partition.offline_replicas.includes(node)) return "gone";
  if (partition.leader === node) return "leader";
  return partition.isr.includes(node) ? "sync" : "late";
}

function Replicas({ topic, data, reload }) {
  const nodes = [...new Set(data.partitions.flatMap((each) => each.replicas))].sort((one, other) => one - other);
  const choices = [["", "All partitions"], ...data.partitions.map((each) => [String(each.partition), `Partition ${each.partition}`])];
  const move = html`<${ChangeButton} label="Move replicas" isSmall action="replicas.move" initial=${{ partition: "", to: nodes.join(",") }}
    fields=${[
      { name: "partition", label: "Partition", type: "select", options: choices, isRequired: true },
      { name: "to", label: "To nodes", isRequired: true, placeholder: "1,2,3", hint: "The first node is the preferred leader." },
    ]}
    toArguments=${(values) => ({ topic, partition: numberOrNull(values.partition), to: values.to.split(/[\s,]+/).filter(Boolean).map(Number) })} onDone=${reload} />`;
  const columns = [
    { key: "partition", label: "Partition" },
    ...nodes.map((node) => ({
      key: `node${node}`, label: html`<a href=${link("nodes", node)}>Node ${node}</a>`,
      render: (each) => {
        const found = mark(each, node);
        return found ? html`<span class=${`replica ${found}`} title=${MARKS[found][1]}><span aria-hidden="true">${MARKS[found][0]}</span><span class="hidden">${MARKS[found][1]}</span></span>` : html`<span class="about" aria-label="no replica">·</span>`;
      },
    })),
  ];
  return html`
    <div class="toolbar"><span class="about">${plural(nodes.length, "node")} with replicas of this topic</span><span class="spring"></span>${move}</div>
    <div class="map"><${Table} label="Replica map" columns=${columns} rows=${data.partitions} rowKey=${(each) => each.partition} /></div>
    <div class="legend" aria-hidden="true">${Object.entries(MARKS).map(([name, [sign, text]]) => html`<span><span class=${`replica ${name} num`}>${html`<span class="legend-sign">${sign}</span>`}</span> ${text}</span>`)}</div>`;
}

function Groups({ data }) {
  const columns = [
    { key: "group", label: "Group", isWide: true, render: (each) => html`<a href=${link("groups", each.group)}>${visible(each.group)}</a>` },
    { key: "state", label: "State", render: (each) => html`<${State}>${each.state}</${State}>` },
    { key: "lag", label: "Lag in this topic", align: "right", render: (each) => count(each.lag) },
  ];
  return html`<${Table} label="Groups that read this topic" columns=${columns} rows=${data.groups} rowKey=${(each) => each.group}
    empty=${html`<${Empty} title="No group reads this topic"><p>A group appears here when a consumer commits an offset of it.</p></${Empty}>`} />`;
}

const SINCE = [["15m", "15 min"], ["1h", "1 h"], ["1d", "1 d"], ["7d", "7 d"]];

function Skew({ topic, since, onSince }) {
  const source = useData(api("topics", topic, "skew", { since }), { every: 0 });
  const keys = [
    { key: "key", label: "Key", isWide: true, render: (each) => html`<span class="mono">${each.key === null ? "null" : visible(each.key)}</span>` },
    { key: "partition", label: "Partition", align: "right", render: (each) => digits(each.partition) },
    { key: "share", label: "Share", align: "right", render: (each) => percent(each.share) },
  ];
  return html`
    <div class="toolbar"><span class="about">How evenly records are spread over the partitions</span><span class="spring"></span>
      <${Segments} label="Period" options=${SINCE} value=${since} onSelect=${onSince} /><button type="button" class="small" onClick=${source.reload}>Measure again</button></div>
    <${Loaded} source=${source}>${(data) => {
      const most = Math.max(1, ...data.partitions.map((each) => Number(each.recent ?? 0)));
      return html`
        ${(data.advice ?? []).length > 0 && html`<ul class="advice">${data.advice.map((each) => html`<li class="notice info">${visible(each)}</li>`)}</ul>`}
        <${Figures} items=${[
          ["Imbalance", data.imbalance === null ? "–" : `${data.imbalance.toFixed(2)}×`, "The fullest partition divided by the mean"],
          ["Gini", data.gini === null ? "–" : data.gini.toFixed(2), "0: all partitions are equal; 1: one has everything"],
          ["Sampled", count(data.sampled)],
          ["Distinct keys", count(data.distinct_keys)],
          ["Without a key", count(data.keyless)],
        ]} />
        <h3>Records per partition in this period</h3>
        <div class="heat">${data.partitions.map((each) => html`
          <div class="heat-cell num" key=${each.partition}><span class="heat-fill" aria-hidden="true" style=${{ opacity: 0.05 + 0.3 * (Number(each.recent ?? 0) / most) }}></span>Partition ${each.partition}<strong>${count(each.recent)}</strong></div>`)}</div>
        <h3>Most frequent keys in the sample</h3>
        <${Table} label="Most frequent keys" columns=${keys} rows=${data.keys} empty=${html`<${Empty} title="No keys in the sample"><p>Records without a key are spread over all partitions.</p></${Empty}>`} />`;
    }}</${Loaded}>`;
}
