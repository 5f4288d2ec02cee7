// A list of any length of which only the visible rows are elements.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/htm-preact.js";

const MORE_ROWS = 8;

// `row(index)` draws a row of `rowHeight` pixels. `added` counts the rows that were ever put on top of the list: while
// the reader has scrolled down, the list moves with them so that what is read stays in place.
export function VirtualList({ total, rowHeight, row, header, label, added = 0, columnCount, selected = null, minWidth = 0, onTop }) {
  const scroller = useRef(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const known = useRef(added);

  const look = () => {
    const element = scroller.current;
    const next = { top: element.scrollTop, height: element.clientHeight };
    setView((old) => (Math.abs(old.top - next.top) < 1 && old.height === next.height ? old : next));
    onTop?.(element.scrollTop < rowHeight);
  };

  useLayoutEffect(() => {
    const more = added - known.current;
    known.current = added;
    const element = scroller.current;
    if (more > 0 && element.scrollTop >= rowHeight) element.scrollTop += more * rowHeight;
    look();
  }, [added, total]);

  useEffect(() => {
    const observer = new ResizeObserver(look);
    observer.observe(scroller.current);
    return () => observer.disconnect();
  }, []);

  useEffect(() => {
    if (selected === null) return;
    const element = scroller.current;
    const top = selected * rowHeight;
    const visibleHeight = element.clientHeight - rowHeight * 2;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top > element.scrollTop + visibleHeight) element.scrollTop = top - visibleHeight;
  }, [selected]);

  const first = Math.max(0, Math.floor(view.top / rowHeight) - MORE_ROWS);
  const last = Math.min(total, Math.ceil((view.top + view.height) / rowHeight) + MORE_ROWS);
  const rows = [];
  for (let index = first; index < last; index += 1) rows.push(row(index));
  const width = minWidth ? { minWidth: `${minWidth}px` } : {};
  return html`
    <div class="virtual" ref=${scroller} onScroll=${look} tabindex="0" role="region" aria-label=${label}>
      <div role="table" aria-label=${label} aria-rowcount=${total + 1} aria-colcount=${columnCount} style=${width}>
        <div role="rowgroup" class="virtual-head">${header}</div>
        <div role="rowgroup" class="virtual-body" style=${{ height: `${total * rowHeight}px` }}>
          <div class="virtual-window" role="presentation" style=${{ transform: `translateY(${first * rowHeight}px)` }}>${rows}</div>
        </div>
      </div>
    </div>`;
}
