// One share group: members, partitions, records in flight, purge.

import { html } from "../vendor/htm-preact.js";
import { useData } from "../lib/api.js";
import { ChangeButton } from "../lib/change.js";
import { count, digits, duration } from "../lib/format.js";
import { api, link } from "../lib/router.js";
import { visible } from "../lib/text.js";
import { Empty, Figures, Loaded, Notice, Page, Pairs, Section, State, Table } from "../lib/ui.js";

const PARTITIONS = [
  { key: "topic", label: "Topic", isWide: true, render: (each) => html`<a href=${link("topics", each.topic)}>${visible(each.topic)}</a>` },
  { key: "partition", label: "Partition", align: "right" },
  { key: "start_offset", label: "Start offset", align: "right", render: (each) => digits(each.start_offset) },
  { key: "lag", label: "Waiting", align: "right", render: (each) => count(each.lag) },
];
const MEMBERS = [
  { key: "client_id", label: "Client", isWide: true, render: (each) => visible(each.client_id) },
  { key: "host", label: "Host", render: (each) => visible(each.host) },
  { key: "partitions", label: "Partitions", render: (each) => visible(each.partitions.join(", ") || "none") },
  { key: "member", label: "Member id", isMinor: true, render: (each) => html`<span class="mono about">${visible(each.member)}</span>` },
];
const IN_FLIGHT = [
  { key: "topic", label: "Record", isWide: true, render: (each) => html`<a href=${link("topics", each.topic, "records", each.partition, each.first_offset)}>${visible(`${each.topic}-${each.partition}`)}</a> <span class="num">${range(each)}</span>` },
  { key: "state", label: "State", render: (each) => html`<${State}>${each.state}</${State}>` },
  { key: "delivery_count", label: "Deliveries", align: "right", render: (each) => count(each.delivery_count) },
  { key: "lock_left_ms", label: "Lock ends in", align: "right", isMinor: true, render: (each) => left(each.lock_left_ms) },
  { key: "delay_left_ms", label: "Delayed for", align: "right", isMinor: true, render: (each) => left(each.delay_left_ms) },
  { key: "member", label: "Member", isMinor: true, render: (each) => html`<span class="mono about">${visible(each.member ?? "–")}</span>` },
];

const range = (each) => (each.first_offset === each.last_offset ? digits(each.first_offset) : `${digits(each.first_offset)}–${digits(each.last_offset)}`);
const left = (ms) => duration(ms === null ? null : ms / 1000);

export default function Queue({ group }) {
  const source = useData(api("queues", group), { every: 3000 });
  const topics = [...new Set((source.data?.partitions ?? []).map((each) => each.topic))];
  const actions = html`<${ChangeButton} label="Purge" isDanger title="Purge the queue" action="queue.purge" initial=${{ topics: "" }}
    about="Skips all records that are waiting: they stay in the topic, and no consumer of this queue gets them."
    fields=${[{ name: "topics", label: "Topics", placeholder: "all topics of the queue", hint: "Separated by spaces." }]}
    toArguments=${(values) => ({ group, topics: values.topics.trim() ? values.topics.trim().split(/\s+/) : topics })} onDone=${source.reload} />`;
  return html`
    <${Page} title=${group} crumbs=${[["Queues", link("queues")]]} actions=${actions}>
      <${Loaded} source=${source}>${(data) => html`
        <${Figures} items=${[
          ["State", html`<${State}>${data.state}</${State}>`],
          ["Waiting", count(data.partitions.reduce((sum, each) => sum + Number(each.lag ?? 0), 0))],
          ["In flight", data.in_flight === null ? "–" : count(data.in_flight.reduce((sum, each) => sum + Number(each.last_offset) - Number(each.first_offset) + 1, 0))],
          ["Members", count(data.members.length)],
        ]} />
        <${Section} title="In flight">
          ${data.in_flight === null
            ? html`<${Notice}><p>${visible(data.in_flight_problem ?? "The brokers do not show it.")}</p></${Notice}>`
            : html`<${Table} label="Records in flight" columns=${IN_FLIGHT} rows=${data.in_flight} empty=${html`<${Empty} title="No records in flight"><p>Records appear here between their delivery and their acknowledgement.</p></${Empty}>`} />`}
        </${Section}>
        <${Section} title="Partitions"><${Table} label="Partitions" columns=${PARTITIONS} rows=${data.partitions} rowKey=${(each) => `${each.topic}/${each.partition}`} empty=${html`<${Empty} title="No partitions yet" />`} /></${Section}>
        <${Section} title="Members"><${Table} label="Members" columns=${MEMBERS} rows=${data.members} rowKey=${(each) => each.member} empty=${html`<${Empty} title="No members"><p>No consumer of this queue is running.</p></${Empty}>`} /></${Section}>
        <${Pairs} items=${[["Coordinator", data.coordinator === null ? "–" : html`<a href=${link("nodes", data.coordinator)}>node ${data.coordinator}</a>`], data.dead_letters && ["Dead letters", html`<a href=${link("dead-letters", data.dead_letters)}>${visible(data.dead_letters)}</a>`]]} />
      `}</${Loaded}>
    </${Page}>`;
}
