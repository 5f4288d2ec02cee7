// Numbers, sizes and times for display. Integers beyond 2^53 arrive as strings and keep every digit.

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1, minimumFractionDigits: 1 });

export const NONE = "–";

export function count(value) {
  if (value === null || value === undefined) return NONE;
  if (typeof value === "string") return /^-?\d+$/.test(value) ? grouped.format(BigInt(value)) : value;
  return grouped.format(value);
}

// Offsets, ids and epochs: digits only, so that they can be copied.
export function digits(value) {
  return value === null || value === undefined ? NONE : String(value);
}

export function rate(value) {
  if (value === null || value === undefined) return NONE;
  if (value === 0) return "0";
  return Math.abs(value) < 10 ? tenths.format(value) : grouped.format(value);
}

export function bytes(value) {
  if (value === null || value === undefined) return NONE;
  const size = Number(value);
  if (size < 1024) return `${size} B`;
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
  let scaled = size;
  let unit = "B";
  for (const each of units) {
    if (scaled < 1024) break;
    scaled /= 1024;
    unit = each;
  }
  return `${scaled < 10 ? tenths.format(scaled) : grouped.format(scaled)} ${unit}`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds < 0) return `-${duration(-seconds)}`;
  if (seconds < 1) return seconds === 0 ? "0 s" : `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${tenths.format(seconds)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
  return `${grouped.format(Math.floor(seconds / 86400))} d`;
}

const two = (number) => String(number).padStart(2, "0");

// A time in the browser's zone, like 2026-01-31 12:00:00.123.
export function time(ms, { fraction = true } = {}) {
  if (ms === null || ms === undefined) return NONE;
  const at = new Date(Number(ms));
  if (Number.isNaN(at.getTime())) return String(ms);
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const clock = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return `${day} ${clock}${fraction ? `.${String(at.getMilliseconds()).padStart(3, "0")}` : ""}`;
}

export function clock(ms) {
  const at = new Date(Number(ms));
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

export function utc(ms) {
  if (ms === null || ms === undefined) return undefined;
  const at = new Date(Number(ms));
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}

export function ago(ms, now = Date.now()) {
  if (ms === null || ms === undefined) return NONE;
  const seconds = Math.max(0, (now - Number(ms)) / 1000);
  return seconds < 2 ? "now" : `${duration(Math.round(seconds))} ago`;
}

export function percent(share) {
  return share === null || share === undefined ? NONE : `${tenths.format(share * 100)} %`;
}

export function plural(number, noun, nouns = `${noun}s`) {
  return `${count(number)} ${Number(number) === 1 ? noun : nouns}`;
}
