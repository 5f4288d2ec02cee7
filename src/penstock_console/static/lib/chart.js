// Lines over time, with uPlot. The colours follow the theme.

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { useData } from "./api.js";
import { clock, NONE } from "./format.js";
import { api } from "./router.js";
import { Segments } from "./ui.js";

const HEIGHT = 200;

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function useTheme() {
  const [, redraw] = useState(0);
  useEffect(() => {
    const changed = () => redraw((each) => each + 1);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const observer = new MutationObserver(changed);
    observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    dark.addEventListener("change", changed);
    return () => {
      observer.disconnect();
      dark.removeEventListener("change", changed);
    };
  }, []);
  return colour("--line");
}

// `lines`: {label, values, scale ("left" or "right"), format, colour (a CSS variable)}; `times` in milliseconds.
export function Chart({ times, lines, label }) {
  const host = useRef(null);
  const [pointed, setPointed] = useState(null);
  const plot = useRef(null);
  const theme = useTheme();
  const data = [times.map((each) => each / 1000), ...lines.map((each) => each.values.map((value) => (value === null ? null : Number(value))))];
  const latest = useRef(data);
  latest.current = data;
  const signature = lines.map((each) => `${each.label}${each.scale}`).join("|");

  useEffect(() => {
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1, size: 4 }, font: `11px ${colour("--sans")}`, gap: 6 };
    const scales = [...new Set(lines.map((each) => each.scale ?? "left"))];
    const options = {
      width: Math.max(200, host.current.clientWidth),
      height: HEIGHT,
      cursor: { y: false, points: { size: 6 } },
      legend: { show: false },
      hooks: { setCursor: [(each) => setPointed(each.cursor.idx ?? null)] },
      padding: [8, 8, 0, 0],
      scales: { x: { time: true }, ...Object.fromEntries(scales.map((name) => [name, { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(1, (high ?? 0) * 1.1)] }])) },
      axes: [
        { ...axis, space: 70, size: 30, values: [[3600, "{HH}:{mm}", null, null, null, null, null, null, 1], [60, "{HH}:{mm}", null, null, null, null, null, null, 1], [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1]] },
        ...scales.map((name, index) => ({ ...axis, scale: name, side: index === 0 ? 3 : 1, size: 46, grid: index === 0 ? axis.grid : { show: false }, values: (_, ticks) => ticks.map((each) => short(each)) })),
      ],
      series: [
        {},
        ...lines.map((each) => ({ label: each.label, scale: each.scale ?? "left", stroke: colour(each.colour ?? "--accent"), width: 1.5, spanGaps: true, points: { show: false }, fill: each.isFilled ? `${colour(each.colour ?? "--accent")}1f` : undefined })),
      ],
    };
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: Math.max(200, host.current.clientWidth), height: HEIGHT }));
    let isOver = false;
    // uPlot is larger than everything else together, so it is loaded after the first drawing of a page.
    import("../vendor/uplot.js").then(({ default: uPlot }) => {
      if (isOver) return;
      plot.current = new uPlot(options, latest.current, host.current);
      observer.observe(host.current);
    }, () => {
      // The legend still shows the latest values.
    });
    return () => {
      isOver = true;
      observer.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [signature, theme]);

  useEffect(() => {
    plot.current?.setData(data);
  }, [times, lines]);

  const at = pointed !== null && pointed < times.length ? pointed : times.length - 1;
  return html`
    <div class="chart" role="img" aria-label=${label} ref=${host}></div>
    <div class="chart-legend num">
      ${lines.map((each) => html`<span key=${each.label}><span class=${`swatch ${each.colour === "--second" ? "second" : ""}`} aria-hidden="true"></span>${each.label} <strong>${lastValue(each, pointed === null ? null : at)}</strong></span>`)}
      ${pointed !== null && html`<span>${clock(times[at])}</span>`}
    </div>`;
}

function lastValue(line, at) {
  const value = at === null ? line.values.findLast((each) => each !== null) : line.values[at];
  return value === null || value === undefined ? NONE : line.format(value);
}

function short(value) {
  const size = Math.abs(value);
  if (size >= 1e9) return `${+(value / 1e9).toFixed(1)}G`;
  if (size >= 1e6) return `${+(value / 1e6).toFixed(1)}M`;
  if (size >= 1e4) return `${+(value / 1e3).toFixed(1)}k`;
  return String(+value.toFixed(2));
}

// The chart of some series of the history. `lines` are the lines of a chart, with `series` for values.
export function History({ lines, label, window, onWindow }) {
  const address = `${api("history")}?${new URLSearchParams([...lines.map((each) => ["series", each.series]), ["window", window]])}`;
  const source = useData(address, { every: 5000 });
  const data = source.data;
  const hasData = data && lines.some((each) => (data.series[each.series] ?? []).some((value) => value !== null));
  return html`
    <div class="history">
      <div class="history-head">
        ${source.problem && html`<span class="about">${source.problem.message}</span>`}
        <${Segments} label="Window" options=${[["15m", "15 min"], ["1h", "1 h"], ["24h", "24 h"]]} value=${window} onSelect=${onWindow} />
      </div>
      ${hasData
        ? html`<${Chart} label=${label} times=${data.times_ms} lines=${lines.map((each) => ({ ...each, values: data.series[each.series] ?? data.times_ms.map(() => null) }))} />`
        : html`<div class="chart-empty">${data ? "No samples yet. The console takes one every 5 seconds." : "\u00a0"}</div>`}
    </div>`;
}
