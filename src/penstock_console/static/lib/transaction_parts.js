// Transactions in tables.

import { html } from "../vendor/htm-preact.js";
import { ChangeButton } from "./change.js";
import { ago, digits, duration } from "./format.js";
import { link } from "./router.js";
import { visible } from "./text.js";

export function partitionsOf(names, most = 4) {
  const some = names.slice(0, most).join(", ");
  return visible(names.length > most ? `${some} and ${names.length - most} more` : some || "none");
}

export function AbortButton({ transaction, onDone }) {
  return html`<${ChangeButton} label="Abort" isDanger isSmall title="Abort transaction" action="transaction.abort" toArguments=${() => ({ id: transaction.id })} isDisabled=${transaction.state !== "Ongoing"} onDone=${onDone} />`;
}

export function hangingColumns(onDone) {
  return [
    { key: "topic", label: "Partition", isWide: true, render: (each) => html`<a href=${link("topics", each.topic, "records", { partition: each.partition, from: each.start_offset, isolation: "read_uncommitted" })}>${visible(`${each.topic}-${each.partition}`)}</a>` },
    { key: "start_offset", label: "Start offset", align: "right", render: (each) => digits(each.start_offset) },
    { key: "producer_id", label: "Producer", align: "right", isMinor: true, render: (each) => `${digits(each.producer_id)} (${digits(each.epoch)})` },
    { key: "last_timestamp_ms", label: "Last record", align: "right", render: (each) => ago(each.last_timestamp_ms) },
    { key: "abort", label: html`<span class="hidden">Actions</span>`, align: "right", render: (each) => html`<${ChangeButton} label="Abort" isDanger isSmall title="Abort hanging transaction" action="transaction.abort-hanging" toArguments=${() => ({ topic: each.topic, partition: each.partition, start_offset: each.start_offset })} onDone=${onDone} />` },
  ];
}

export function timeout(transaction) {
  return duration(transaction.timeout_ms === null ? null : transaction.timeout_ms / 1000);
}
