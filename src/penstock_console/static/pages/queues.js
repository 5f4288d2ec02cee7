// Share groups: Kafka's queues.

import { html } from "../vendor/htm-preact.js";
import { useData } from "../lib/api.js";
import { count } from "../lib/format.js";
import { api, link } from "../lib/router.js";
import { visible } from "../lib/text.js";
import { Empty, Loaded, Page, State, Table } from "../lib/ui.js";

const COLUMNS = [
  { key: "group", label: "Queue", isWide: true, render: (each) => html`<a href=${link("queues", each.group)}>${visible(each.group)}</a>` },
  { key: "state", label: "State", render: (each) => html`<${State}>${each.state}</${State}>` },
  { key: "members", label: "Members", align: "right", render: (each) => count(each.members) },
  { key: "lag", label: "Waiting", align: "right", render: (each) => count(each.lag) },
];

export default function Queues() {
  const source = useData(api("queues"));
  return html`
    <${Page} title="Queues" about="Share groups: consumers take records one by one, acknowledge them, and failed ones are delivered again.">
      <${Loaded} source=${source}>${(data) => html`
        <${Table} label="Queues" columns=${COLUMNS} rows=${data.queues} rowKey=${(each) => each.group}
          empty=${html`<${Empty} title="There are no share groups"><p>One appears when a consumer with <code>group.protocol=share</code>, such as Kafka's <code>KafkaShareConsumer</code>, subscribes.</p></${Empty}>`} />
      `}</${Loaded}>
    </${Page}>`;
}
