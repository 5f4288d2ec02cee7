// Requests to the console's API: errors as sentences, the token of the session, data that refreshes without flicker.

import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "../vendor/htm-preact.js";

export class ApiProblem extends Error {
  constructor(status, error) {
    super(error.message ?? `The console answered with status ${status}.`);
    this.status = status;
    this.code = error.code ?? "";
    this.hint = error.hint ?? null;
    this.error = error;
  }
}

let session = null;
const listeners = new Set();

function keep(next) {
  session = next;
  for (const each of listeners) each(next);
  return next;
}

export async function loadSession() {
  return keep(await get("/api/session"));
}

export function useSession() {
  const [value, set] = useState(session);
  useEffect(() => {
    listeners.add(set);
    set(session);
    return () => listeners.delete(set);
  }, []);
  return value;
}

async function send(address, options) {
  let response;
  try {
    response = await fetch(address, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiProblem(0, { code: "UNREACHABLE", message: "The console does not answer.", hint: "It may have been stopped. This page tries again by itself." });
  }
  return response;
}

// The error of a response that is not a success.
export async function problemOf(response) {
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch {
    // The body is not JSON: the status has to do.
  }
  if (error.code === "LOGIN_REQUIRED" && session) loadSession().catch(() => {});
  return new ApiProblem(response.status, error);
}

export async function get(address, { signal } = {}) {
  const response = await send(address, { signal });
  if (!response.ok) throw await problemOf(response);
  return response.json();
}

export async function post(address, body, { signal } = {}) {
  for (let attempt = 0; ; attempt += 1) {
    const headers = { "Content-Type": "application/json", "X-Penstock-Token": session?.token ?? "" };
    const response = await send(address, { method: "POST", headers, body: JSON.stringify(body), signal });
    if (response.ok) {
      const content = await response.json();
      return content;
    }
    const problem = await problemOf(response);
    // The token changes when the console restarts: read it again, once.
    if (problem.code !== "INVALID_TOKEN" || attempt > 0) throw problem;
    await loadSession();
  }
}

export async function login(cluster, user, password) {
  return keep(await post("/api/login", { cluster, user, password }));
}

export async function logout() {
  await post("/api/logout", {});
  return loadSession();
}

// Read an address, and again every few seconds while the page is visible. Old data stays until new data arrives.
// `every` is 0 for data that is read once. `reload()` reads now.
export function useData(address, { every = 5000 } = {}) {
  const [state, setState] = useState({ data: null, problem: null, isLoading: true, address });
  const reading = useRef({ abort: null, timer: null, text: "" });

  const read = useCallback(async () => {
    const current = reading.current;
    current.abort?.abort();
    clearTimeout(current.timer);
    if (address === null) return;
    const abort = new AbortController();
    current.abort = abort;
    try {
      const response = await send(address, { signal: abort.signal });
      if (!response.ok) throw await problemOf(response);
      const text = await response.text();
      if (abort.signal.aborted) return;
      const data = JSON.parse(text);
      setState((old) => (old.address === address && !old.problem && !old.isLoading && same(text, current.text) ? old : { data, problem: null, isLoading: false, address }));
      current.text = text;
    } catch (error) {
      if (abort.signal.aborted) return;
      const problem = error instanceof ApiProblem ? error : new ApiProblem(0, { message: String(error.message ?? error) });
      setState((old) => ({ data: isGone(problem) ? null : old.data, problem, isLoading: false, address }));
    }
    if (every > 0 && !document.hidden) current.timer = setTimeout(read, every);
  }, [address, every]);

  // Other effects wait for the next frame; the request need not.
  useLayoutEffect(() => {
    setState((old) => (old.address === address ? old : { ...old, isLoading: true }));
    read();
    const shown = () => {
      if (document.hidden) clearTimeout(reading.current.timer);
      else if (every > 0) read();
    };
    document.addEventListener("visibilitychange", shown);
    return () => {
      document.removeEventListener("visibilitychange", shown);
      reading.current.abort?.abort();
      clearTimeout(reading.current.timer);
    };
  }, [read]);

  return { ...state, reload: read };
}

// Only the time of reading differs: nothing to draw.
function same(text, old) {
  const bare = (each) => each.replace(/"as_of_ms":\s*\d+/, "");
  return bare(text) === bare(old);
}

// Data of something that no longer exists must not stay on the page.
function isGone(problem) {
  return [400, 401, 403, 404].includes(problem.status);
}
