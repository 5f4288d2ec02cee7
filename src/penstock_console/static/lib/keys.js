// Keyboard: each page registers its keys, and `?` lists those that are active.

import { useLayoutEffect, useRef } from "../vendor/htm-preact.js";

const active = new Set();
let prefix = "";
let prefixTimer = null;

// `bindings` is a list of [keys, label, action]; "g t" is two keys in a row.
export function useKeys(section, bindings) {
  const latest = useRef(bindings);
  latest.current = bindings;
  // As soon as the page is drawn: a key that is pressed before a later effect would be lost.
  useLayoutEffect(() => {
    const entry = { section, bindings: () => latest.current };
    active.add(entry);
    return () => active.delete(entry);
  }, [section]);
}

export function activeKeys() {
  return [...active].map((each) => ({ section: each.section, bindings: each.bindings() })).filter((each) => each.bindings.length > 0);
}

function isTyping(target) {
  return target instanceof Element && target.closest("input, textarea, select, [contenteditable]") !== null;
}

function find(pressed) {
  for (const entry of [...active].reverse()) {
    for (const binding of entry.bindings()) if (binding[0] === pressed) return binding;
  }
  return null;
}

export function listen() {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]:not([data-keys])")) return;
    if (event.key === "Enter" && event.target instanceof Element && event.target.closest("a, button, summary")) return;
    const pressed = prefix ? `${prefix} ${event.key}` : event.key;
    clearTimeout(prefixTimer);
    prefix = "";
    const binding = find(pressed);
    if (binding) {
      event.preventDefault();
      binding[2]();
    } else if ([...active].some((entry) => entry.bindings().some((each) => each[0].startsWith(`${pressed} `)))) {
      prefix = pressed;
      prefixTimer = setTimeout(() => (prefix = ""), 1500);
    }
  });
}
