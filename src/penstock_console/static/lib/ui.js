// The parts that pages are made of.

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { ago, clock, NONE, time, utc } from "./format.js";
import { visible } from "./text.js";

let ids = 0;

export function useId(prefix) {
  const ref = useRef(null);
  if (ref.current === null) ref.current = `${prefix}-${(ids += 1)}`;
  return ref.current;
}

// Text from the cluster.
export function Text({ children, mono = false, ...rest }) {
  return html`<bdi class=${mono ? "mono" : ""} ...${rest}>${visible(children)}</bdi>`;
}

export function Time({ ms, relative = false }) {
  if (ms === null || ms === undefined) return NONE;
  const text = relative ? ago(ms) : time(ms);
  return html`<time datetime=${utc(ms)} title=${relative ? time(ms) : utc(ms)} class="num">${text}</time>`;
}

export function Page({ title, about, actions, crumbs, children, isWide = false }) {
  useEffect(() => {
    document.title = `${visible(title)} · Penstock console`;
  }, [title]);
  return html`
    <div class=${isWide ? "page wide" : "page"}>
      <header class="page-head">
        <div class="page-title">
          ${crumbs && html`<nav class="crumbs" aria-label="Breadcrumb">${crumbs.map(([text, to], index) => html`${index > 0 ? html`<span aria-hidden="true">/</span>` : ""}<a href=${to}>${visible(text)}</a>`)}</nav>`}
          <h1 tabindex="-1"><bdi>${visible(title)}</bdi></h1>
          ${about && html`<p class="about">${about}</p>`}
        </div>
        ${actions && html`<div class="actions">${actions}</div>`}
      </header>
      ${children}
    </div>`;
}

export function Section({ title, actions, about, children, id }) {
  const heading = useId("section");
  return html`
    <section aria-labelledby=${heading} id=${id}>
      <div class="section-head">
        <h2 id=${heading}>${title}</h2>
        ${actions && html`<div class="actions">${actions}</div>`}
      </div>
      ${about && html`<p class="about">${about}</p>`}
      ${children}
    </section>`;
}

export function Problem({ problem, retry }) {
  if (!problem) return null;
  return html`
    <div class="notice error" role="alert">
      <p><strong>${visible(problem.message)}</strong>${problem.hint ? html` ${visible(problem.hint)}` : ""}</p>
      ${retry && html`<button type="button" class="small" onClick=${retry}>Try again</button>`}
    </div>`;
}

export function Notice({ kind = "info", children }) {
  return html`<div class=${`notice ${kind}`}><div>${children}</div></div>`;
}

export function Empty({ title, children }) {
  return html`<div class="empty"><p class="empty-title">${title}</p>${children && html`<div>${children}</div>`}</div>`;
}

// Data of useData: a hint while it loads for the first time, what failed, or the content.
export function Loaded({ source, children }) {
  const [isSlow, setSlow] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSlow(true), 300);
    return () => clearTimeout(timer);
  }, []);
  if (source.data === null) {
    if (source.problem) return html`<${Problem} problem=${source.problem} retry=${source.reload} />`;
    return html`<p class="loading" aria-busy="true">${isSlow ? "Loading…" : "\u00a0"}</p>`;
  }
  return html`
    ${source.problem && html`
      <div class="notice warning" role="status">
        <p><strong>Not up to date.</strong> ${visible(source.problem.message)}
        ${source.data.as_of_ms ? ` Shown is the state of ${clock(source.data.as_of_ms)}.` : " Shown is the last known state."}</p>
      </div>`}
    <div class=${source.isLoading ? "content is-loading" : "content"}>${children(source.data)}</div>`;
}

// `columns`: {key, label, align: "right", isMinor (hidden on narrow screens), render(row), sort (name)}.
export function Table({ columns, rows, rowKey, label, empty, sort, order, onSort, selected, rowClass }) {
  if (rows.length === 0 && empty) return empty;
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label=${label}>
      <table>
        <thead><tr>
          ${columns.map((each) => html`<th scope="col" key=${each.key} class=${cellClass(each)} aria-sort=${ariaSort(each, sort, order)}>
            ${each.sort && onSort ? html`<button type="button" class="sort" onClick=${() => onSort(each.sort)}>${each.label}<span aria-hidden="true">${each.sort === sort ? (order === "desc" ? "↓" : "↑") : ""}</span></button>` : each.label}
          </th>`)}
        </tr></thead>
        <tbody>
          ${rows.map((row, index) => {
            const key = rowKey ? rowKey(row) : index;
            return html`<tr key=${key} class=${rowClass ? rowClass(row) : ""} aria-selected=${selected === undefined ? undefined : String(selected === key)}>
              ${columns.map((each) => html`<td key=${each.key} class=${cellClass(each)}>${each.render ? each.render(row) : visible(row[each.key] ?? NONE)}</td>`)}
            </tr>`;
          })}
        </tbody>
      </table>
    </div>`;
}

function cellClass(column) {
  return [column.align === "right" ? "right num" : "", column.isMinor ? "minor" : "", column.isWide ? "grow" : "", column.isTight ? "tight" : ""].filter(Boolean).join(" ");
}

function ariaSort(column, sort, order) {
  if (!column.sort || column.sort !== sort) return undefined;
  return order === "desc" ? "descending" : "ascending";
}

export function Pager({ page, size, total, onPage }) {
  const last = Math.max(1, Math.ceil(total / size));
  if (last === 1) return null;
  const from = (page - 1) * size + 1;
  return html`
    <nav class="pager" aria-label="Pages">
      <span class="num">${from.toLocaleString("en-US")}–${Math.min(total, from + size - 1).toLocaleString("en-US")} of ${total.toLocaleString("en-US")}</span>
      <button type="button" disabled=${page <= 1} onClick=${() => onPage(page - 1)}>Previous</button>
      <button type="button" disabled=${page >= last} onClick=${() => onPage(page + 1)}>Next</button>
    </nav>`;
}

const TONES = {
  good: /^(stable|up\b|running|completecommit|completed?$|done|leader|allow|online|follower)/i,
  bad: /^(down|offline|failed|dead$|error|fenced|deny|hanging|prepareabort)/i,
  busy: /(rebalance|preparing|assigning|reconciling|starting|ongoing|recovering|shutting|prepare|acquired|silent)/i,
};

export function State({ children }) {
  // Share groups and transactions spell their states with a capital letter, other groups do not.
  const text = String(children ?? NONE).toLowerCase();
  const tone = Object.keys(TONES).find((each) => TONES[each].test(text)) ?? "quiet";
  return html`<span class=${`state ${tone}`}>${visible(text)}</span>`;
}

export function Tag({ tone = "quiet", children }) {
  return html`<span class=${`tag ${tone}`}>${children}</span>`;
}

// Figures at the head of a page: [label, value, title].
export function Figures({ items }) {
  return html`<dl class="figures">${items.filter(Boolean).map(([label, value, title]) => html`<div key=${label} title=${title}><dt>${label}</dt><dd class="num">${value}</dd></div>`)}</dl>`;
}

export function Pairs({ items }) {
  return html`<dl class="pairs">${items.filter(Boolean).map(([label, value]) => html`<div key=${label}><dt>${label}</dt><dd>${value}</dd></div>`)}</dl>`;
}

export function Tabs({ tabs, current, onSelect, label }) {
  return html`<nav class="tabs" aria-label=${label}>
    ${tabs.map(([id, text]) => html`<button type="button" key=${id} aria-current=${id === current ? "page" : undefined} onClick=${() => onSelect(id)}>${text}</button>`)}
  </nav>`;
}

export function Segments({ label, options, value, onSelect }) {
  return html`<div class="segments" role="group" aria-label=${label}>
    ${options.map(([id, text]) => html`<button type="button" key=${id} aria-pressed=${String(id === value)} onClick=${() => onSelect(id)}>${text}</button>`)}
  </div>`;
}

export function Command({ text }) {
  if (!text) return null;
  return html`<div class="command"><code tabindex="0" role="region" aria-label="Equivalent command">${visible(text)}</code><${Copy} text=${text} label="Copy command" /></div>`;
}

export function Copy({ text, label = "Copy" }) {
  const [isDone, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<button type="button" class="small" aria-label=${label} onClick=${copy}>${isDone ? "Copied" : "Copy"}</button>`;
}

export function Dialog({ title, onClose, children, size = "", keys = false }) {
  const ref = useRef(null);
  const heading = useId("dialog");
  useEffect(() => {
    const element = ref.current;
    element.showModal();
    (element.querySelector(".dialog-body input, .dialog-body select, .dialog-body textarea") ?? element.querySelector("h2")).focus();
    return () => element.close();
  }, []);
  const cancel = (event) => {
    event.preventDefault();
    onClose();
  };
  return html`
    <dialog ref=${ref} class=${size} aria-labelledby=${heading} onCancel=${cancel} onClose=${onClose} data-keys=${keys ? "" : undefined}>
      <div class="dialog-head"><h2 id=${heading} tabindex="-1">${visible(title)}</h2><button type="button" class="icon" aria-label="Close" onClick=${onClose}>×</button></div>
      ${children}
    </dialog>`;
}

// A search field that changes the address when typing pauses.
export function Search({ value, onChange, label, placeholder = "Search" }) {
  const [text, setText] = useState(value);
  const timer = useRef(null);
  const sent = useRef(value);
  useEffect(() => {
    if (value !== sent.current) {
      sent.current = value;
      setText(value);
    }
  }, [value]);
  const input = (event) => {
    const next = event.target.value;
    setText(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      sent.current = next;
      onChange(next);
    }, 200);
  };
  return html`<input type="search" data-search class="search" aria-label=${label} placeholder=${placeholder} value=${text} onInput=${input} spellcheck=${false} autocomplete="off" />`;
}

export function Bar({ share, tone = "" }) {
  const bounded = Math.max(0, Math.min(1, share || 0));
  return html`<span class=${`bar ${tone}`} aria-hidden="true"><span style=${{ width: `${bounded * 100}%` }}></span></span>`;
}
