// Rows of records in a virtual list: as key and value, or with one column per JSON field.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { digits, time, utc } from "./format.js";
import { useKeys } from "./keys.js";
import { FieldValue, fieldText } from "./record_parts.js";
import { link } from "./router.js";
import { visible } from "./text.js";
import { VirtualList } from "./virtual.js";

const NARROW = matchMedia("(max-width: 760px)");
const FIXED = "64px 112px 178px";
const FIELD_WIDTH = 150;

function useNarrow() {
  const [isNarrow, set] = useState(NARROW.matches);
  useEffect(() => {
    const changed = () => set(NARROW.matches);
    NARROW.addEventListener("change", changed);
    return () => NARROW.removeEventListener("change", changed);
  }, []);
  return isNarrow;
}

export const rowKey = (row) => `${row.partition}:${row.offset}`;

// `opened` is the key of the open row; `onOpen(key)` opens another one. `fields` are the JSON columns, or null.
export function RecordList({ topic, rows, fields, opened, onOpen, added, empty, onTop }) {
  const isNarrow = useNarrow();
  const [selected, setSelected] = useState(null);
  const isColumns = fields !== null;
  const isShort = isNarrow && isColumns;
  const template = isShort ? `90px ${fields.map(() => `minmax(${FIELD_WIDTH}px, 1fr)`).join(" ")}` : isColumns ? `${FIXED} 120px ${fields.map(() => `minmax(${FIELD_WIDTH}px, 1fr)`).join(" ")}` : `${FIXED} minmax(80px, 160px) minmax(160px, 1fr)`;
  const minWidth = isColumns ? (isShort ? 110 : 540) + fields.length * (FIELD_WIDTH + 14) : 0;
  const isTwoLines = isNarrow && !isColumns;
  const place = selected === null ? -1 : rows.findIndex((each) => rowKey(each) === selected);
  const move = (step) => {
    if (rows.length === 0) return;
    const next = Math.max(0, Math.min(rows.length - 1, place + step));
    setSelected(rowKey(rows[next]));
    if (opened) onOpen(rowKey(rows[next]));
  };
  useKeys("Records", [
    ["j", "Next row", () => move(1)],
    ["k", "Previous row", () => move(-1)],
    ["Enter", "Open the row", () => selected !== null && onOpen(selected)],
  ]);
  if (rows.length === 0) return html`<div class="virtual"><div class="virtual-empty">${empty}</div></div>`;

  const style = isTwoLines ? {} : { gridTemplateColumns: template };
  const layout = isTwoLines ? "row two-lines" : "row";
  const header = isTwoLines
    ? html`<div class=${layout} role="row"><span role="columnheader">Partition:offset</span><span role="columnheader">Time</span><span role="columnheader" class="value">Value</span></div>`
    : html`<div class=${layout} role="row" style=${style}>
        ${isShort ? html`<span role="columnheader">Record</span>` : html`<span role="columnheader" class="right">Partition</span><span role="columnheader" class="right">Offset</span><span role="columnheader">Time</span><span role="columnheader">Key</span>`}
        ${isColumns ? fields.map((each) => html`<span role="columnheader" key=${each}><bdi>${visible(each)}</bdi></span>`) : html`<span role="columnheader">Value</span>`}
      </div>`;
  const draw = (index) => {
    const row = rows[index];
    const key = rowKey(row);
    const open = (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.button > 0) return;
      if (getSelection()?.toString()) return;
      event.preventDefault();
      setSelected(key);
      onOpen(key);
    };
    const address = link("topics", topic, "records", row.partition, row.offset);
    const value = html`<span role="cell" class="value"><${FieldValue} field=${row.value} /></span>`;
    const when = html`<span role="cell" class="num" title=${utc(row.timestamp_ms)}>${time(row.timestamp_ms)}</span>`;
    const attributes = { role: "row", "aria-rowindex": index + 2, "aria-selected": String(key === (opened || selected)), onClick: open };
    if (isTwoLines) return html`<div key=${key} class=${layout} ...${attributes}><span role="cell" class="num place"><a href=${address}>${key}</a></span>${when}${value}</div>`;
    return html`
      <div key=${key} class=${layout} style=${style} ...${attributes}>
        ${isShort ? html`<span role="cell" class="num"><a href=${address}>${key}</a></span>` : html`
          <span role="cell" class="num right">${row.partition}</span>
          <span role="cell" class="num right"><a href=${address}>${digits(row.offset)}</a></span>
          ${when}
          <span role="cell" class="key value" title=${fieldText(row.key)}><${FieldValue} field=${row.key} /></span>`}
        ${isColumns ? fields.map((each) => html`<span role="cell" class="value" key=${each}>${row.cells?.[each] === undefined ? "" : html`<bdi>${visible(row.cells[each])}</bdi>`}</span>`) : value}
      </div>`;
  };
  return html`<${VirtualList} label="Records" total=${rows.length} rowHeight=${isTwoLines ? 46 : 28} row=${draw} header=${header} added=${added} minWidth=${minWidth}
    columnCount=${isTwoLines ? 3 : isColumns ? (isShort ? 1 : 4) + fields.length : 5} selected=${place < 0 ? null : place} onTop=${onTop} />`;
}
