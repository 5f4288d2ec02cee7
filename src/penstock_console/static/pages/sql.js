// SQL over the cluster's metadata and the records of topics.

import { html, useRef, useState } from "../vendor/htm-preact.js";
import { ApiProblem, post, useData } from "../lib/api.js";
import { count, duration } from "../lib/format.js";
import { useKeys } from "../lib/keys.js";
import { api, useQuery } from "../lib/router.js";
import { visible } from "../lib/text.js";
import { Command, Page, Problem, Section } from "../lib/ui.js";
import { VirtualList } from "../lib/virtual.js";

const RECENT = "penstock.sql";
const RECENT_MAX = 20;

function recent() {
  try {
    return JSON.parse(localStorage.getItem(RECENT) ?? "[]");
  } catch {
    return [];
  }
}

function remember(sql) {
  try {
    localStorage.setItem(RECENT, JSON.stringify([sql, ...recent().filter((each) => each !== sql)].slice(0, RECENT_MAX)));
  } catch {
    // Storage is switched off: queries are not remembered.
  }
}

export default function Sql() {
  const [query, setQuery] = useQuery({ sql: "" });
  const [sql, setSql] = useState(query.sql);
  const [result, setResult] = useState(null);
  const [problem, setProblem] = useState(null);
  const [isRunning, setRunning] = useState(false);
  const running = useRef(null);
  const editor = useRef(null);
  const help = useData(api("sql", "tables"), { every: 0 });
  useKeys("SQL", [["e", "Edit the query", () => editor.current?.focus()]]);

  const run = async () => {
    if (!sql.trim()) return;
    running.current?.abort();
    const abort = new AbortController();
    running.current = abort;
    setRunning(true);
    setProblem(null);
    setQuery({ sql });
    remember(sql);
    let found = null;
    let failure = null;
    try {
      found = await post(api("sql"), { sql, count: 1000 }, { signal: abort.signal });
    } catch (error) {
      failure = error.name === "AbortError" ? new ApiProblem(0, { message: "The query was stopped." }) : error;
    }
    // A query that was replaced by the next one must not overwrite its result.
    if (running.current !== abort) return;
    setResult(found);
    setProblem(failure);
    setRunning(false);
  };
  const key = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run();
    }
  };
  const choose = (text) => {
    setSql(text);
    editor.current?.focus();
  };
  return html`
    <${Page} title="SQL" isWide>
      <form class="editor" onSubmit=${(event) => { event.preventDefault(); run(); }}>
        <textarea ref=${editor} data-search class="mono" aria-label="SQL query" rows="6" spellcheck=${false} placeholder="SELECT * FROM topic('orders') LIMIT 10" value=${sql} onInput=${(event) => setSql(event.target.value)} onKeyDown=${key}></textarea>
        <div class="editor-foot">
          ${isRunning ? html`<button key="stop" type="button" class="danger" onClick=${() => running.current?.abort()}>Stop</button>` : html`<button key="run" type="submit" class="primary" data-shortcut="main">Run</button>`}
          <span class="about"><kbd>Ctrl</kbd> <kbd>Enter</kbd></span>
          <span class="about num" role="status">${isRunning ? "Running…" : result ? `${count(result.rows.length)}${result.more ? " rows shown, there are more" : result.rows.length === 1 ? " row" : " rows"}, ${duration(result.elapsed_ms / 1000)}` : ""}</span>
          <span class="spring"></span>
          ${recent().length > 0 && html`<label><span class="hidden">Recent queries</span><select class="recent" value="" onChange=${(event) => { choose(event.target.value); event.target.value = ""; }}><option value="">Recent queries</option>${recent().map((each) => html`<option value=${each}>${visible(each).slice(0, 80)}</option>`)}</select></label>`}
        </div>
      </form>
      <div class="sql-problem"><${Problem} problem=${problem} /></div>
      ${result && html`<${Result} result=${result} /><div class="sql-command"><${Command} text=${result.command} /></div>`}
      ${help.data && html`
        <${Section} title="Examples"><div class="examples">${help.data.examples.map((each) => html`<button type="button" class="mono" onClick=${() => choose(each)}>${visible(each)}</button>`)}</div></${Section}>
        <${Section} title="Tables"><div class="tables">${help.data.tables.map((each) => html`
          <details key=${each.table}><summary><span class="mono">${visible(each.table)}</span></summary>
            ${each.about && html`<p class="about">${visible(each.about)}</p>`}
            <dl>${Object.entries(each.columns).map(([name, type]) => html`<dt>${visible(name)}</dt><dd>${visible(type)}</dd>`)}</dl>
          </details>`)}</div></${Section}>`}
    </${Page}>`;
}

const WIDTH_MIN = 90;
const WIDTH_MAX = 420;
const CHARACTER = 7.4;

function cell(value) {
  if (value === null || value === undefined) return "null";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function widths(result) {
  return result.columns.map((name, index) => {
    const longest = result.rows.slice(0, 100).reduce((most, row) => Math.max(most, cell(row[index]).length), name.length);
    return Math.max(WIDTH_MIN, Math.min(WIDTH_MAX, Math.round(longest * CHARACTER) + 16));
  });
}

function Result({ result }) {
  if (result.rows.length === 0) return html`<p class="about">The query returned no rows.</p>`;
  const sizes = widths(result);
  const isNumber = result.columns.map((_, index) => result.rows.every((row) => row[index] === null || typeof row[index] === "number" || /^-?\d+$/.test(String(row[index]))));
  const style = { gridTemplateColumns: `${sizes.slice(0, -1).map((each) => `${each}px`).join(" ")} minmax(${sizes.at(-1)}px, ${isNumber.at(-1) ? `${sizes.at(-1)}px` : "1fr"})` };
  const header = html`<div class="row" role="row" style=${style}>${result.columns.map((each, index) => html`<span role="columnheader" key=${index} class=${isNumber[index] ? "right" : ""}>${visible(each)}</span>`)}</div>`;
  const row = (index) => html`<div class="row" role="row" key=${index} aria-rowindex=${index + 2} style=${style}>
    ${result.rows[index].map((value, at) => html`<span role="cell" key=${at} title=${visible(cell(value)).slice(0, 500)} class=${`value num ${value === null ? "null" : ""} ${isNumber[at] ? "right" : ""}`}><bdi>${visible(cell(value))}</bdi></span>`)}
  </div>`;
  const height = Math.min(result.rows.length, 18) * 28 + 48;
  return html`<div class="results" style=${{ height: `${height}px` }}><${VirtualList} label="Result" total=${result.rows.length} rowHeight=${28} row=${row} header=${header} columnCount=${result.columns.length} minWidth=${sizes.reduce((sum, each) => sum + each + 14, 20)} /></div>`;
}
