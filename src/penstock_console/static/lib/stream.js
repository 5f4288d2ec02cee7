// Server-Sent Events over fetch: unlike EventSource, it shows why a stream was refused.
// A stream that breaks is opened again at the last position. A hidden page closes its stream, and continues when shown.

import { ApiProblem, problemOf } from "./api.js";

const RETRY_MS = 1000;
const TURN_MS = 20;

// `on(event, data)` gets each event; `state` gets "connecting", "open", "waiting" or "ended", with a problem or null.
// `isEndless` is false for a stream that must not be repeated. Returns a function that closes the stream.
export function openStream(address, { on, state, isEndless = true }) {
  let abort = null;
  let timer = null;
  let cursor = null;
  let isClosed = false;

  async function run() {
    clearTimeout(timer);
    abort = new AbortController();
    const { signal } = abort;
    state("connecting", null);
    let problem = null;
    try {
      const headers = cursor === null ? {} : { "Last-Event-ID": cursor };
      const response = await fetch(address, { headers, signal, credentials: "same-origin" });
      if (!response.ok) {
        const refused = await problemOf(response);
        if (refused.status < 500 && refused.status !== 429) return end(refused);
        throw refused;
      }
      state("open", null);
      for await (const { event, data, id } of events(response.body)) {
        if (signal.aborted) return;
        if (event === "failed") return end(new ApiProblem(400, JSON.parse(data)));
        on(event, JSON.parse(data));
        if (id !== null) cursor = id;
        if (event === "done") return end(null);
      }
    } catch (error) {
      if (signal.aborted) return;
      problem = error instanceof ApiProblem ? error : new ApiProblem(0, { code: "UNREACHABLE", message: "The stream was interrupted." });
    }
    if (isClosed || signal.aborted) return;
    if (!isEndless) return end(problem ?? new ApiProblem(0, { message: "The stream ended early." }));
    state("waiting", problem);
    timer = setTimeout(run, RETRY_MS);
  }

  function end(problem) {
    close();
    state("ended", problem);
  }

  function shown() {
    if (isClosed || !isEndless) return;
    abort?.abort();
    clearTimeout(timer);
    if (document.hidden) state("waiting", null);
    else run();
  }

  function close() {
    isClosed = true;
    document.removeEventListener("visibilitychange", shown);
    clearTimeout(timer);
    abort?.abort();
  }

  document.addEventListener("visibilitychange", shown);
  run();
  return close;
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let began = performance.now();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split(/\r?\n\r?\n/);
    rest = blocks.pop();
    for (const block of blocks) {
      const found = parse(block);
      if (found.data === "") continue;
      // Frames that have piled up must not become one long task: the page draws and reacts between them.
      if (performance.now() - began > TURN_MS) {
        await new Promise((resolve) => setTimeout(resolve));
        began = performance.now();
      }
      yield found;
    }
  }
}

function parse(block) {
  const found = { event: "message", data: "", id: null };
  const data = [];
  for (const line of block.split(/\r?\n/)) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const value = line.slice(colon + 1).replace(/^ /, "");
    const field = line.slice(0, colon);
    if (field === "data") data.push(value);
    else if (field === "event") found.event = value;
    else if (field === "id") found.id = value;
  }
  found.data = data.join("\n");
  return found;
}
