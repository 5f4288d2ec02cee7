// Where rows of records come from: a page of them, the live tail, or a search.

import { useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { ApiProblem, get } from "./api.js";
import { api } from "./router.js";
import { openStream } from "./stream.js";

export const KEPT_ROWS_MAX = 5000;
const DRAW_EVERY_MS = 150;

// Parameters of the API from the query of the page.
export function parameters(query, names) {
  const found = Object.fromEntries(names.map((each) => [each, query[each]]).filter(([, value]) => value));
  return found;
}

// Pages of rows; `more()` appends the next one.
export function usePages(topic, query, isActive) {
  const [state, setState] = useState({ rows: [], columns: null, answer: null, problem: null, isLoading: true });
  const reading = useRef(null);
  const order = query.from ? "asc" : "desc";
  const shared = { ...parameters(query, ["from", "partition", "text", "key", "where", "view", "isolation"]), order, count: 100 };
  const signature = JSON.stringify([topic, shared, isActive]);

  const read = async (cursor) => {
    reading.current?.abort();
    const abort = new AbortController();
    reading.current = abort;
    setState((old) => ({ ...old, isLoading: true, problem: null }));
    const { from, ...rest } = shared;
    const position = cursor === null ? (from ? { from } : {}) : { [order === "asc" ? "after" : "before"]: cursor };
    try {
      const answer = await get(api("topics", topic, "records", { ...rest, ...position }), { signal: abort.signal });
      setState((old) => ({
        rows: cursor === null ? answer.rows : [...old.rows, ...answer.rows],
        columns: answer.columns === null ? null : cursor === null ? answer.columns : merged(old.columns ?? [], answer.columns),
        answer, problem: null, isLoading: false,
      }));
    } catch (error) {
      if (error.name === "AbortError") return;
      setState((old) => ({ ...(cursor === null ? { rows: [], columns: null, answer: null } : old), problem: error, isLoading: false }));
    }
  };

  useEffect(() => {
    if (!isActive) return;
    read(null);
    return () => reading.current?.abort();
  }, [signature]);
  return { ...state, more: () => read(state.answer.next), reload: () => read(null) };
}

function merged(old, more) {
  return [...old, ...more.filter((each) => !old.includes(each))];
}

const NOTHING = { rows: [], columns: [], shown: 0, skipped: 0, filtered: 0, read: 0, rate: 0 };

// The live tail, newest rows first. Every record is either shown, skipped or filtered; the newest rows are kept.
export function useTail(topic, query, isActive) {
  const [view, setView] = useState(NOTHING);
  const [connection, setConnection] = useState({ state: "connecting", problem: null });
  const shared = parameters(query, ["from", "partition", "text", "key", "where", "view", "isolation"]);
  const signature = JSON.stringify([topic, shared, isActive]);

  useEffect(() => {
    if (!isActive) return;
    const now = { ...NOTHING, rows: [] };
    const recent = [];
    let timer = null;
    setView(now);
    const draw = () => {
      timer = null;
      while (recent.length > 2 && recent[0][0] < performance.now() - 5000) recent.shift();
      const seconds = recent.length > 1 ? (recent.at(-1)[0] - recent[0][0]) / 1000 : 0;
      const rate = seconds > 0 ? (recent.at(-1)[1] - recent[0][1]) / seconds : 0;
      setView({ ...now, rate });
    };
    const close = openStream(api("topics", topic, "records", "tail", { from: "latest", ...shared }), {
      on: (event, data) => {
        if (event === "problem") return setConnection({ state: "open", problem: new ApiProblem(502, data.error ?? data) });
        setConnection((old) => (old.problem || old.state !== "open" ? { state: "open", problem: null } : old));
        if (event !== "rows") return;
        now.shown += data.rows.length;
        now.skipped += data.skipped;
        now.filtered += data.filtered;
        now.read = now.shown + now.skipped + now.filtered;
        if (data.columns) now.columns = merged(now.columns, data.columns);
        now.rows = [...data.rows.reverse(), ...now.rows.slice(0, Math.max(0, KEPT_ROWS_MAX - data.rows.length))];
        recent.push([performance.now(), now.read]);
        timer ??= setTimeout(draw, DRAW_EVERY_MS);
      },
      // Records count from the first event on: it has the position at which the tail begins.
      state: (state, problem) => setConnection({ state: state === "open" ? "connecting" : state, problem }),
    });
    return () => {
      close();
      clearTimeout(timer);
    };
  }, [signature]);
  return { ...view, ...connection };
}

// A search through the whole topic, with progress.
export function useSearch(topic, query, isActive) {
  const [view, setView] = useState({ rows: [], columns: [], progress: null, done: null });
  const [connection, setConnection] = useState({ state: "ended", problem: null });
  const closing = useRef(null);
  const shared = parameters(query, ["from", "partition", "text", "key", "where", "view", "isolation"]);
  const signature = JSON.stringify([topic, shared, isActive]);

  const stop = () => {
    closing.current?.();
    closing.current = null;
    setConnection((old) => (old.state === "ended" ? old : { state: "stopped", problem: null }));
  };
  const start = () => {
    closing.current?.();
    const now = { rows: [], columns: [], progress: null, done: null };
    setView(now);
    closing.current = openStream(api("topics", topic, "records", "search", shared), {
      isEndless: false,
      on: (event, data) => {
        if (event === "rows") {
          now.rows = [...now.rows, ...data.rows];
          for (const row of data.rows) now.columns = merged(now.columns, Object.keys(row.cells ?? {}));
        } else if (event === "progress") now.progress = data;
        else if (event === "done") now.done = data;
        setView({ ...now });
      },
      state: (state, problem) => setConnection({ state, problem }),
    });
  };
  useEffect(() => {
    if (isActive) start();
    return () => closing.current?.();
  }, [signature]);
  return { ...view, ...connection, stop, start };
}
