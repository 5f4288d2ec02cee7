// The dead letters of one topic: grouped by error, filtered, replayed in bulk.

import { html } from "../vendor/htm-preact.js";
import { useData } from "../lib/api.js";
import { ChangeButton } from "../lib/change.js";
import { numberOrNull, textOrNull } from "../lib/form.js";
import { count, digits, NONE, time } from "../lib/format.js";
import { FieldValue } from "../lib/record_parts.js";
import { api, link, useQuery } from "../lib/router.js";
import { visible, visibleLines } from "../lib/text.js";
import { Empty, Figures, Loaded, Page, Pairs, Search, Section, Table } from "../lib/ui.js";

const REPLAY = [
  { name: "error", label: "Only this error", isHalf: true, placeholder: "all errors" },
  { name: "contains", label: "Only messages that contain", isHalf: true },
  { name: "key", label: "Only this key", isHalf: true },
  { name: "partition", label: "Only this partition", type: "number", min: 0, isHalf: true },
  { name: "from", label: "From", isHalf: true, placeholder: "new", hint: "new: letters that were not replayed yet. Or earliest, an offset, an age, a time." },
  { name: "to", label: "To topic", isHalf: true, placeholder: "where each letter came from" },
  { name: "rate", label: "Records per second", type: "number", min: 1, isHalf: true, placeholder: "no limit" },
  { name: "count", label: "At most", type: "number", min: 1, isHalf: true, placeholder: "all" },
  { name: "keep_timestamps", label: "Keep the original timestamps", type: "checkbox" },
];

function toReplay(topic, values) {
  return {
    topic,
    error: textOrNull(values.error),
    contains: textOrNull(values.contains),
    key: textOrNull(values.key),
    partition: numberOrNull(values.partition),
    from: values.from || "new",
    to: textOrNull(values.to),
    rate: numberOrNull(values.rate),
    count: numberOrNull(values.count),
    keep_timestamps: Boolean(values.keep_timestamps),
  };
}

export default function DeadLetter({ topic }) {
  const [query, setQuery] = useQuery({ error: "", contains: "", key: "", partition: "", group: "", count: "100" });
  const source = useData(api("dead-letters", topic, query), { every: 10000 });
  const errors = [
    { key: "error", label: "Error", isWide: true, render: (each) => html`<button type="button" class="link mono" aria-pressed=${String(query.error === each.error)} onClick=${() => setQuery({ error: query.error === each.error ? "" : each.error })}>${visible(each.error ?? "unknown")}</button>` },
    { key: "count", label: "Letters", align: "right", render: (each) => count(each.count) },
    { key: "last_ms", label: "Last", isMinor: true, render: (each) => time(each.last_ms, { fraction: false }) },
    { key: "example", label: "Example", isMinor: true, render: (each) => visible(each.example ?? NONE) },
  ];
  const actions = html`
    <${ChangeButton} label="Replay" isPrimary shortcut="main" title="Replay dead letters" action="dead-letters.replay" fields=${REPLAY} initial=${{ error: query.error, contains: query.contains, key: query.key, partition: query.partition, from: "new" }}
      about="Writes the letters to the topic that they came from, as they were before they failed." toArguments=${(values) => toReplay(topic, values)} onDone=${source.reload} />
    <a class="button" href=${link("topics", topic, "records")}>Records</a>`;
  const isFiltered = query.error || query.contains || query.key || query.partition || query.group;
  return html`
    <${Page} title=${topic} crumbs=${[["Dead letters", link("dead-letters")]]} actions=${actions}>
      <${Loaded} source=${source}>${(data) => html`
        <${Figures} items=${[["Letters", count(data.total)], isFiltered && ["Matching", count(data.matching)], ["Kinds of errors", count(data.errors.length)]]} />
        <${Section} title="By error"><${Table} label="Errors" columns=${errors} rows=${data.errors} rowKey=${(each) => each.error} empty=${html`<${Empty} title="No errors" />`} /></${Section}>
        <${Section} title="Letters" about=${data.letters.length < data.matching ? `The newest ${count(data.letters.length)} of ${count(data.matching)}` : "Newest first"} actions=${isFiltered && html`<button type="button" class="small" onClick=${() => setQuery({ error: "", contains: "", key: "", partition: "", group: "" })}>Clear the filter</button>`}>
          <div class="toolbar"><${Search} label="Search messages" placeholder="Search in messages" value=${query.contains} onChange=${(contains) => setQuery({ contains })} />
            ${query.error && html`<span class="tag accent">${visible(query.error)}</span>`}</div>
          ${data.letters.length === 0 ? html`<${Empty} title=${isFiltered ? "No letter matches" : "This topic holds no letters"} />` : data.letters.map((each) => html`<${Letter} key=${`${each.row.partition}:${each.row.offset}`} topic=${topic} letter=${each} />`)}
        </${Section}>
      `}</${Loaded}>
    </${Page}>`;
}

function Letter({ topic, letter }) {
  const { row, source } = letter;
  return html`
    <details class="letter">
      <summary>
        <span class="num">${time(letter.last_failure_ms ?? row.timestamp_ms, { fraction: false })}</span>
        <span class="num wide-only">${digits(row.partition)}:${digits(row.offset)}</span>
        <span class="mono">${visible(letter.error ?? "not a dead letter")}</span>
        <span class="wide-only">${visible(letter.message ?? "")}</span>
      </summary>
      <div class="letter-body">
        <p>${visible(letter.message ?? "")}</p>
        <${Pairs} items=${[
          ["Letter", html`<a href=${link("topics", topic, "records", row.partition, row.offset)}>${digits(row.partition)}:${digits(row.offset)}</a>`],
          source && ["From", html`<a href=${link("topics", source.topic, "records", source.partition, source.offset)}>${visible(`${source.topic}-${source.partition}`)} at ${digits(source.offset)}</a>`],
          letter.group && ["Group", visible(letter.group)],
          letter.attempts !== null && ["Attempts", count(letter.attempts)],
          letter.first_failure_ms !== null && ["First failure", time(letter.first_failure_ms)],
        ]} />
        <div><h3>Key</h3><pre class="content-text" tabindex="0" aria-label="Key"><${FieldValue} field=${row.key} /></pre></div>
        <div><h3>Value</h3><pre class="content-text" tabindex="0" aria-label="Value"><${FieldValue} field=${row.value} /></pre></div>
        ${letter.trace && html`<div><h3>Trace</h3><pre class="content-text" tabindex="0" aria-label="Trace">${visibleLines(letter.trace)}</pre></div>`}
      </div>
    </details>`;
}
