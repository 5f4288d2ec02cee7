// Topics of dead letters.

import { html } from "../vendor/htm-preact.js";
import { useData } from "../lib/api.js";
import { count } from "../lib/format.js";
import { api, link } from "../lib/router.js";
import { visible } from "../lib/text.js";
import { Empty, Loaded, Page, Table } from "../lib/ui.js";

const COLUMNS = [
  { key: "topic", label: "Dead letters", isWide: true, render: (each) => html`<a href=${link("dead-letters", each.topic)}>${visible(each.topic)}</a>` },
  { key: "source", label: "Of topic", render: (each) => (each.source ? html`<a href=${link("topics", each.source)}>${visible(each.source)}</a>` : "–") },
  { key: "letters", label: "Letters", align: "right", render: (each) => count(each.letters) },
  { key: "not_replayed", label: "Not replayed", align: "right", render: (each) => html`<span class=${each.not_replayed ? "warning-text" : ""}>${count(each.not_replayed)}</span>` },
];

export default function DeadLetters() {
  const source = useData(api("dead-letters"));
  return html`
    <${Page} title="Dead letters" about="Records that a consumer gave up on, with the error and their origin.">
      <${Loaded} source=${source}>${(data) => html`
        <${Table} label="Topics of dead letters" columns=${COLUMNS} rows=${data.topics} rowKey=${(each) => each.topic}
          empty=${html`<${Empty} title="There are no dead letters"><p>Workers, share groups and pipelines write records that keep failing to a topic with the suffix <code>.dlq</code>.</p></${Empty}>`} />
      `}</${Loaded}>
    </${Page}>`;
}
