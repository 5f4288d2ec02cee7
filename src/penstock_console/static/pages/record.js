// The permalink of one record.

import { html } from "../vendor/htm-preact.js";
import { RecordView } from "../lib/record_view.js";
import { go, link } from "../lib/router.js";
import { Page } from "../lib/ui.js";

export default function RecordPage({ topic, partition, offset }) {
  return html`
    <${Page} title=${`Record ${partition}:${offset}`} crumbs=${[["Topics", link("topics")], [topic, link("topics", topic)], ["Records", link("topics", topic, "records")]]}>
      <${RecordView} topic=${topic} partition=${partition} offset=${offset} onMove=${(next) => go(link("topics", topic, "records", partition, next))} />
    </${Page}>`;
}
