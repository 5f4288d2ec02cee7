// Records of a topic: browse, live tail, search. The address holds everything that is chosen here.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { useCluster } from "../lib/change.js";
import { bytes, count, duration, plural, rate } from "../lib/format.js";
import { useKeys } from "../lib/keys.js";
import { RecordList } from "../lib/record_list.js";
import { KEPT_ROWS_MAX, parameters, usePages, useSearch, useTail } from "../lib/record_sources.js";
import { RecordView } from "../lib/record_view.js";
import { api, link, useQuery } from "../lib/router.js";
import { Bar, Command, Dialog, Notice, Page, Problem, Segments } from "../lib/ui.js";

const DEFAULTS = { from: "", partition: "", text: "", key: "", where: "", view: "rows", isolation: "read_committed", mode: "browse", live: "", open: "" };
const FILTERS = ["from", "partition", "text", "key", "where", "isolation"];

export default function Records({ topic }) {
  const [query, setQuery] = useQuery(DEFAULTS);
  const cluster = useCluster();
  const mode = query.live ? "live" : query.mode;
  const [isPaused, setPaused] = useState(false);
  const isHidden = cluster !== null && !cluster.contents;
  const pages = usePages(topic, query, mode === "browse" && !isHidden);
  const tail = useTail(topic, query, mode === "live" && !isHidden);
  const search = useSearch(topic, query, mode === "search" && !isHidden);
  const held = useHeld(tail, isPaused);
  const setMode = (next) => {
    setPaused(false);
    setQuery({ live: next === "live" ? "1" : "", mode: next === "live" ? "browse" : next, open: "" });
  };
  useKeys("Records of a topic", [
    ["l", "Live tail on or off", () => setMode(mode === "live" ? "browse" : "live")],
    ...(mode === "live" ? [["p", "Pause or continue the live tail", () => setPaused(!isPaused)]] : []),
    ["v", "Rows or JSON columns", () => setQuery({ view: query.view === "columns" ? "rows" : "columns" })],
  ]);

  const active = { browse: pages, live: held, search }[mode];
  const fields = query.view === "columns" ? (active.columns ?? []) : null;
  const open = (key) => setQuery({ open: key });
  const isFiltered = FILTERS.some((each) => each !== "isolation" && query[each]);
  const actions = html`
    <${Segments} label="Mode" options=${[["browse", "Browse"], ["live", "Live"], ["search", "Search"]]} value=${mode} onSelect=${setMode} />
    <${Segments} label="View" options=${[["rows", "Rows"], ["columns", "Columns"]]} value=${query.view} onSelect=${(view) => setQuery({ view })} />
    <a class="button" data-shortcut="main" href=${link("topics", topic, "produce")}>Produce</a>`;
  return html`
    <div class="records-page"><${Page} title="Records" isWide crumbs=${[["Topics", link("topics")], [topic, link("topics", topic)]]} actions=${actions}>
      ${isHidden
        ? html`<${Notice} kind="warning"><p>Record contents are hidden: this console can be reached from other computers without a login. Start it with <code>--login</code> or <code>--allow contents</code>.</p></${Notice}>`
        : html`
          <${Filters} query=${query} mode=${mode} apply=${(changes) => { setQuery({ ...changes, open: "" }, { push: true }); if (mode === "search" && FILTERS.every((each) => changes[each] === query[each])) search.start(); }} />
          ${mode === "browse" && html`<${BrowseStatus} pages=${pages} query=${query} />`}
          ${mode === "live" && html`<${LiveStatus} tail=${held} isPaused=${isPaused} onPause=${() => setPaused(!isPaused)} />`}
          ${mode === "search" && html`<${SearchStatus} search=${search} isFiltered=${isFiltered} />`}
          <div class="list-host"><${RecordList} topic=${topic} rows=${active.rows} fields=${fields} opened=${query.open} onOpen=${open} added=${mode === "live" ? held.shown : 0} empty=${emptyText(mode, active, isFiltered, topic)} /></div>
          <${Foot} topic=${topic} query=${query} mode=${mode} pages=${pages} />
          ${query.open && html`<${Drawer} topic=${topic} opened=${query.open} onOpen=${open} />`}`}
    </${Page}></div>`;
}

// While paused, the page keeps the rows of that moment; counting goes on.
function useHeld(tail, isPaused) {
  const [held, setHeld] = useState(null);
  useEffect(() => setHeld(isPaused ? { rows: tail.rows, columns: tail.columns, shown: tail.shown } : null), [isPaused]);
  return isPaused && held ? { ...tail, rows: held.rows, columns: held.columns, total: tail.shown, shown: held.shown } : { ...tail, total: tail.shown };
}

function Filters({ query, mode, apply }) {
  const applied = Object.fromEntries(FILTERS.map((each) => [each, query[each]]));
  const [values, setValues] = useState(applied);
  useEffect(() => setValues(applied), [JSON.stringify(applied)]);
  const input = (name) => (event) => setValues({ ...values, [name]: event.target.value });
  const submit = (event) => {
    event.preventDefault();
    apply(values);
  };
  const field = (name, label, placeholder, classes = "", more = {}) => html`
    <label class=${classes}>${label}<input name=${name} value=${values[name]} placeholder=${placeholder} onInput=${input(name)} spellcheck=${false} autocomplete="off" ...${more} /></label>`;
  const start = { browse: "newest first", live: "latest", search: "earliest" }[mode];
  return html`
    <form class="filters" role="search" aria-label="Filter records" onSubmit=${submit}>
      ${field("text", "Contains", "text in key or value", "", { "data-search": "" })}
      ${field("where", "SQL condition", "value->>'$.customer' = 'eve'", "three full", { class: "mono" })}
      ${field("key", "Key", "equals")}
      ${field("from", "From", start, "", { list: "positions", title: "earliest, latest, an offset, -100 (the last 100), an age such as 5m, or a time such as 2026-01-31T12:00:00Z" })}
      ${field("partition", "Partition", "all", "one")}
      <label class="one">Isolation<select value=${values.isolation} onChange=${input("isolation")}><option value="read_committed" selected=${values.isolation === "read_committed"}>committed</option><option value="read_uncommitted" selected=${values.isolation === "read_uncommitted"}>all</option></select></label>
      <div class="go"><button type="submit" class="primary">${mode === "search" ? "Search" : "Apply"}</button></div>
      <datalist id="positions">${["earliest", "latest", "-100", "5m", "1h", "1d"].map((each) => html`<option value=${each}></option>`)}</datalist>
    </form>`;
}

const ENDED = { time: "Stopped after 10 seconds: continue to read on.", bytes: "Stopped after 64 MiB: continue to read on." };

function BrowseStatus({ pages, query }) {
  const { answer } = pages;
  return html`
    <div class="status" role="status">
      ${pages.problem ? "" : answer ? html`<span>${plural(pages.rows.length, "record")}${query.from ? `, from ${query.from}` : ", newest first"}</span>
        ${answer.scanned > answer.rows.length && html`<span>${count(answer.scanned)} read (${bytes(answer.scanned_bytes)})</span>`}
        ${ENDED[answer.ended] && html`<span class="warning-text">${ENDED[answer.ended]}</span>`}` : html`<span>Reading…</span>`}
      <span class="spring"></span>
      <button type="button" class="small" onClick=${pages.reload} disabled=${pages.isLoading}>Refresh</button>
    </div>
    <${Problem} problem=${pages.problem} />`;
}

const CONNECTION = { connecting: ["busy", "Connecting"], open: ["good", "Live"], waiting: ["busy", "Reconnecting"], ended: ["bad", "Stopped"] };

function LiveStatus({ tail, isPaused, onPause }) {
  const [tone, word] = tail.problem && tail.state === "open" ? ["busy", "Waiting for the cluster"] : CONNECTION[tail.state];
  return html`
    <div class="status">
      <span class="live"><span class=${`dot ${isPaused ? "" : tone}`} aria-hidden="true"></span><span role="status">${isPaused ? "Paused" : word}</span></span>
      <span data-count="shown" data-value=${tail.total}>${count(tail.total)} shown</span>
      <span data-count="skipped" data-value=${tail.skipped} class=${tail.skipped ? "warning-text" : ""} title="Too many to display: read by the console, and left out here">${count(tail.skipped)} skipped</span>
      <span data-count="filtered" data-value=${tail.filtered}>${count(tail.filtered)} filtered out</span>
      <span>${rate(tail.rate)} records/s</span>
      ${tail.total > KEPT_ROWS_MAX && html`<span>the newest ${count(KEPT_ROWS_MAX)} are kept</span>`}
      <span class="spring"></span>
      <button type="button" class="small" onClick=${onPause}>${isPaused ? "Continue" : "Pause"}</button>
    </div>
    <${Problem} problem=${tail.problem} />`;
}

function SearchStatus({ search, isFiltered }) {
  const { progress, done } = search;
  const latest = done ?? progress;
  const isRunning = search.state === "connecting" || search.state === "open";
  const words = done
    ? { end: "Searched everything", count: "Found as many as are displayed", time: "Stopped after ten minutes" }[done.ended] ?? "Done"
    : search.state === "stopped" ? "Stopped" : isRunning ? "Searching" : "Ready";
  return html`
    <div class="status" role="status">
      <span class="live">${words}</span>
      ${latest && html`<span>${count(latest.found)} found</span><span>${count(latest.scanned)}${latest.total || progress?.total ? ` of ${count(progress?.total ?? latest.total)}` : ""} read</span>`}
      ${progress && html`<span>${duration(progress.elapsed_ms / 1000)}</span>`}
      ${!isFiltered && html`<span>No filter is set: the first records are found.</span>`}
      <span class="spring"></span>
      ${isRunning ? html`<button type="button" class="small" onClick=${search.stop}>Stop</button>` : html`<button type="button" class="small" onClick=${search.start}>Search again</button>`}
    </div>
    ${isRunning && html`<${Bar} share=${progress?.total ? progress.scanned / progress.total : 0} />`}
    <${Problem} problem=${search.problem} />`;
}

function emptyText(mode, active, isFiltered, topic) {
  if (mode === "live") return html`<strong>Waiting for records</strong>New records appear here when they are written.`;
  if (active.problem) return "Nothing to display.";
  if (mode === "browse" && active.isLoading) return "Reading…";
  if (mode === "search" && (active.state === "connecting" || active.state === "open")) return "Searching…";
  if (isFiltered) return html`<strong>No record matches</strong>Change the filter, or search the whole topic with the mode “Search”.`;
  return html`<strong>This topic holds no records</strong><a href=${link("topics", topic, "produce")}>Produce one</a> or start the live tail.`;
}

function Foot({ topic, query, mode, pages }) {
  const shared = { ...parameters(query, ["from", "partition", "text", "key", "where", "isolation"]), order: query.from ? "asc" : "desc", count: 100000 };
  const download = (format) => api("topics", topic, "records", "download", { ...shared, format });
  return html`
    <div class="records-foot">
      ${mode === "browse" && pages.answer?.next && html`<button type="button" disabled=${pages.isLoading} onClick=${pages.more}>${pages.isLoading ? "Reading…" : query.from ? "Load newer" : "Load older"}</button>`}
      ${mode === "browse" && html`<${Command} text=${pages.answer?.command} />`}
      <span class="spring"></span>
      <a class="button small" href=${download("json")} download>Download JSON</a>
      <a class="button small" href=${download("csv")} download>Download CSV</a>
    </div>`;
}

function Drawer({ topic, opened, onOpen }) {
  const [partition, offset] = opened.split(":");
  return html`
    <${Dialog} title=${`Record ${opened}`} size="side" keys onClose=${() => onOpen("")}>
      <div class="dialog-body"><${RecordView} key=${opened} topic=${topic} partition=${partition} offset=${offset} onMove=${(next) => onOpen(`${partition}:${next}`)} /></div>
    </${Dialog}>`;
}
