// Which page belongs to an address. Imports nothing, so that the first page is known before all else is loaded.

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function route() {
  const parts = location.pathname.split("/").filter((each) => each !== "").map(decoded);
  const [mark, cluster, ...segments] = parts;
  return { cluster: mark === "c" ? (cluster ?? null) : null, segments };
}

// Path patterns, from the most specific one: [pattern, module].
const PAGES = [
  [["topics", ":topic", "records", ":partition", ":offset"], "record"],
  [["topics", ":topic", "records"], "records"],
  [["topics", ":topic", "produce"], "produce"],
  [["topics", ":topic"], "topic"],
  [["topics"], "topics"],
  [["groups", ":group"], "group"],
  [["groups"], "groups"],
  [["queues", ":group"], "queue"],
  [["queues"], "queues"],
  [["dead-letters", ":topic"], "dead_letter"],
  [["dead-letters"], "dead_letters"],
  [["pipelines", ":name"], "pipeline"],
  [["pipelines"], "pipelines"],
  [["transactions", ":id"], "transaction"],
  [["transactions"], "transactions"],
  [["nodes", ":node"], "node"],
  [["nodes"], "nodes"],
  [["access"], "access"],
  [["sql"], "sql"],
  [[], "overview"],
];

export function match(segments) {
  for (const [pattern, module] of PAGES) {
    if (pattern.length !== segments.length) continue;
    if (!pattern.every((each, index) => each.startsWith(":") || each === segments[index])) continue;
    const names = pattern.map((each, index) => [each.slice(1), segments[index], each.startsWith(":")]).filter(([, , isName]) => isName);
    return { module, names: Object.fromEntries(names.map(([name, value]) => [name, value])) };
  }
  return null;
}

// The components of the pages that are loaded, by module.
export const loaded = {};

export async function load(module) {
  loaded[module] ??= (await import(`../pages/${module}.js`)).default;
}
