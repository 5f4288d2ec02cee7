// One consumer group: lag now and over time, members, reset.

import { html } from "../vendor/htm-preact.js";
import { useData } from "../lib/api.js";
import { ChangeButton } from "../lib/change.js";
import { History } from "../lib/chart.js";
import { count, digits, duration, rate } from "../lib/format.js";
import { clears, Trend } from "../lib/group_parts.js";
import { api, go, link, useQuery } from "../lib/router.js";
import { visible } from "../lib/text.js";
import { Empty, Figures, Loaded, Page, Pairs, Section, State, Table } from "../lib/ui.js";

const RESET = [
  { name: "to", label: "To", isRequired: true, placeholder: "earliest", hint: "earliest, latest, an offset, an age such as 1h, a time such as 2026-01-31T12:00:00Z, or a shift such as +10 or -10." },
  { name: "topics", label: "Topics", placeholder: "all topics of the group", hint: "Separated by spaces. 'orders:0,2' selects partitions." },
];

const PARTITIONS = [
  { key: "topic", label: "Topic", isWide: true, render: (each) => html`<a href=${link("topics", each.topic)}>${visible(each.topic)}</a>` },
  { key: "partition", label: "Partition", align: "right", render: (each) => html`<a href=${link("topics", each.topic, "records", { partition: each.partition, from: each.committed })}>${each.partition}</a>` },
  { key: "committed", label: "Committed", align: "right", isMinor: true, render: (each) => digits(each.committed) },
  { key: "end", label: "End", align: "right", isMinor: true, render: (each) => digits(each.end) },
  { key: "lag", label: "Lag", align: "right", render: (each) => count(each.lag) },
  { key: "seconds", label: "Behind", align: "right", render: (each) => duration(each.seconds) },
  { key: "client_id", label: "Consumer", isMinor: true, render: (each) => (each.client_id ? html`${visible(each.client_id)} <span class="about">${visible(each.host ?? "")}</span>` : html`<span class="about">none</span>`) },
];

const MEMBERS = [
  { key: "client_id", label: "Client", isWide: true, render: (each) => html`${visible(each.client_id)}${each.instance ? html` <span class="about">${visible(each.instance)}</span>` : ""}` },
  { key: "host", label: "Host", render: (each) => visible(each.host) },
  { key: "partitions", label: "Partitions", render: (each) => visible(assigned(each.partitions)) },
  { key: "member", label: "Member id", isMinor: true, render: (each) => html`<span class="mono about">${visible(each.member)}</span>` },
];

function assigned(partitions) {
  if (partitions.length === 0) return "none";
  return partitions.length > 12 ? `${partitions.slice(0, 12).join(", ")} and ${partitions.length - 12} more` : partitions.join(", ");
}

export default function Group({ group }) {
  const [query, setQuery] = useQuery({ window: "15m" });
  const source = useData(api("groups", group));
  const topicNames = [...new Set((source.data?.partitions ?? []).map((each) => each.topic))];
  const actions = html`
    <${ChangeButton} label="Reset offsets" shortcut="main" action="group.reset" fields=${RESET} initial=${{ to: "", topics: "" }}
      toArguments=${(values) => ({ group, topics: values.topics.trim() ? values.topics.trim().split(/\s+/) : topicNames, to: values.to.trim() })} onDone=${source.reload} />
    <${ChangeButton} label="Delete group" isDanger action="group.delete" toArguments=${() => ({ group })} onDone=${() => go(link("groups"))} />`;
  const lines = [
    { label: "Lag (records)", series: `group.lag:${group}`, format: count, isFilled: true },
    { label: "Committed per second", series: `group.rate:${group}`, scale: "right", format: rate, colour: "--second" },
  ];
  return html`
    <${Page} title=${group} crumbs=${[["Groups", link("groups")]]} actions=${actions}>
      <${Loaded} source=${source}>${(data) => html`
        <${Figures} items=${[
          ["State", html`<${State}>${data.state}</${State}>`],
          ["Lag", count(data.lag)],
          ["Behind", duration(data.seconds), "Age of the oldest record that is not read yet"],
          ["Trend", html`<${Trend} trend=${data.trend} />`],
          ["Clears", clears(data), "When the lag is 0 at the present trend"],
          ["Members", count(data.members.length)],
        ]} />
        <${Section} title="Lag over time"><${History} lines=${lines} label=${`Lag of ${group} over time`} window=${query.window} onWindow=${(window) => setQuery({ window })} /></${Section}>
        <${Section} title="Partitions"><${Table} label="Partitions" columns=${PARTITIONS} rows=${data.partitions} rowKey=${(each) => `${each.topic}/${each.partition}`} empty=${html`<${Empty} title="No committed offsets"><p>The group has not committed anything yet.</p></${Empty}>`} /></${Section}>
        <${Section} title="Members"><${Table} label="Members" columns=${MEMBERS} rows=${data.members} rowKey=${(each) => each.member} empty=${html`<${Empty} title="No members"><p>No consumer of this group is running. Its offsets can be reset.</p></${Empty}>`} /></${Section}>
        <${Pairs} items=${[["Type", visible(data.type)], ["Assignor", visible(data.assignor ?? "–")], ["Coordinator", data.coordinator === null ? "–" : html`<a href=${link("nodes", data.coordinator)}>node ${data.coordinator}</a>`]]} />
      `}</${Loaded}>
    </${Page}>`;
}
