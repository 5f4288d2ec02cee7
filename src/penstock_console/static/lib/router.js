// The address bar as the state of the page: /c/<cluster>/<page>/...?query.

import { useCallback, useEffect, useState } from "../vendor/htm-preact.js";
import { route } from "./pages.js";

function withQuery(path, query) {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}

function path(prefix, words) {
  const query = typeof words.at(-1) === "object" ? words.pop() : null;
  const cluster = encodeURIComponent(route().cluster ?? "");
  return withQuery(`${prefix}/${cluster}/${words.map((each) => encodeURIComponent(each)).join("/")}`, query);
}

// link("topics", "orders", {view: "columns"}) is the address of a page of this cluster.
export const link = (...words) => path("/c", words);

// api("topics", "orders") is the address of the data of that page.
export const api = (...words) => path("/api/c", words);

export function go(address, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", address);
  dispatchEvent(new Event("penstock:route"));
}

function useAddress() {
  const [, redraw] = useState(0);
  useEffect(() => {
    const changed = () => redraw((each) => each + 1);
    addEventListener("popstate", changed);
    addEventListener("penstock:route", changed);
    return () => {
      removeEventListener("popstate", changed);
      removeEventListener("penstock:route", changed);
    };
  }, []);
}

export function useRoute() {
  useAddress();
  return route();
}

// The query of the page, with defaults; a function that changes it; and the part of it that differs from the defaults.
// A value that equals its default is left out of the address.
export function useQuery(defaults) {
  useAddress();
  const given = new URLSearchParams(location.search);
  const query = Object.fromEntries(Object.entries(defaults).map(([name, value]) => [name, given.get(name) ?? value]));
  const changed = Object.fromEntries([...given].filter(([name, value]) => name in defaults && value !== defaults[name]));
  const change = useCallback((changes, { push = false } = {}) => {
    const next = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === undefined || String(value) === String(defaults[name] ?? "")) next.delete(name);
      else next.set(name, value);
    }
    const search = next.toString();
    const address = `${location.pathname}${search ? `?${search}` : ""}`;
    if (address !== `${location.pathname}${location.search}`) go(address, { replace: !push });
  }, []);
  return [query, change, changed];
}

function isPlain(event) {
  return event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey && !event.defaultPrevented;
}

// Follow links between pages without loading the document again.
export function followLinks() {
  addEventListener("click", (event) => {
    const anchor = event.target instanceof Element ? event.target.closest("a[href]") : null;
    if (!anchor || !isPlain(event) || anchor.target || anchor.hasAttribute("download")) return;
    const target = new URL(anchor.href);
    if (target.origin !== location.origin || !target.pathname.startsWith("/c/")) return;
    event.preventDefault();
    const isOtherPage = target.pathname !== location.pathname;
    if (target.href !== location.href) go(target.pathname + target.search);
    if (isOtherPage) scrollTo(0, 0);
  });
}
