// The frame of every page: navigation, theme, keys, login. The page itself is chosen by the path.

import { html, render, useEffect, useErrorBoundary, useRef, useState } from "./vendor/htm-preact.js";
import { loadSession, logout, useSession } from "./lib/api.js";
import { ChangeHost } from "./lib/change.js";
import { activeKeys, listen, useKeys } from "./lib/keys.js";
import { load, loaded, match } from "./lib/pages.js";
import { followLinks, go, link, useRoute } from "./lib/router.js";
import { visible } from "./lib/text.js";
import { Dialog, Page, Problem } from "./lib/ui.js";

const ICON = new URL("icon.svg", import.meta.url).pathname;

// [page, title, key, icon path]
const NAVIGATION = [
  ["", "Overview", "o", "M2 9h4V2H2zM2 14h4v-3H2zM9 14h5V7H9zM9 2v3h5V2z"],
  ["topics", "Topics", "t", "M2 4h12M2 8h12M2 12h8"],
  ["groups", "Groups", "g", "M5.5 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM1.5 13.500c0-2 1.500-3.500 4-3.500s4 1.500 4 3.500M10.500 3.200a2.400 2.400 0 0 1 0 4.600M11.500 10.200c2 .4 3 1.600 3 3.300"],
  ["queues", "Queues", "u", "M2 3h12v3.500H2zM2 9.500h12V13H2zM4.500 4.750h.01M4.500 11.250h.01"],
  ["dead-letters", "Dead letters", "d", "M2 3.500h12v9H2zM2 4.500l6 4.500 6-4.500"],
  ["pipelines", "Pipelines", "p", "M2 4h4v3H2zM10 9h4v3h-4zM6 5.500h3v5h1"],
  ["transactions", "Transactions", "x", "M3 5h10l-2.500-2.500M13 11H3l2.500 2.500"],
  ["nodes", "Nodes", "n", "M3 2.500h10v4H3zM3 9.500h10v4H3zM5.500 4.500h.01M5.500 11.500h.01"],
  ["access", "Access", "a", "M8 1.800l5 2v4c0 3.200-2 5.200-5 6.400-3-1.200-5-3.200-5-6.400v-4z"],
  ["sql", "SQL", "s", "M3 4l3.500 4L3 12M8 12.500h5"],
];

function usePage(module) {
  const [, redraw] = useState(0);
  const [problem, setProblem] = useState(null);
  const Content = loaded[module] ?? null;
  useEffect(() => {
    // It may have been loaded since it was looked for, and then has to be drawn all the same.
    if (module === null || Content !== null) return;
    let isOver = false;
    setProblem(null);
    load(module).then(
      () => !isOver && redraw((each) => each + 1),
      (error) => !isOver && setProblem({ message: "The page could not be loaded.", hint: `${error.message} Reload to try again.` }),
    );
    return () => {
      isOver = true;
    };
  }, [module]);
  return [Content, problem];
}

function Guarded({ children }) {
  const [error, reset] = useErrorBoundary((each) => console.error(each));
  if (!error) return children;
  return html`<div class="page"><${Problem} problem=${{ message: "This page failed to draw.", hint: String(error.message) }} retry=${reset} /></div>`;
}

function CurrentPage({ segments, cluster }) {
  const found = match(segments);
  const [Content, problem] = usePage(found?.module ?? null);
  const isFirst = useRef(true);
  const place = segments.join("/");
  useEffect(() => {
    // After following a link, screen readers and the keyboard begin at the new page's title.
    if (!isFirst.current && !document.querySelector("dialog[open]")) document.querySelector("main h1")?.focus({ preventScroll: true });
    isFirst.current = false;
  }, [place, Content]);
  if (found === null) {
    return html`<${Page} title="No such page"><p>There is no page at this address. <a href=${link()}>Go to the overview.</a></p></${Page}>`;
  }
  if (problem) return html`<div class="page"><${Problem} problem=${problem} /></div>`;
  if (Content === null) return html`<div class="page"></div>`;
  return html`<${Guarded} key=${`${cluster}/${place}`}><${Content} ...${found.names} /></${Guarded}>`;
}

function Icon({ path }) {
  return html`<svg class="nav-icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false"><path d=${path} fill="none" stroke="currentColor" stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round" /></svg>`;
}

const THEMES = { system: "light", light: "dark", dark: "system" };

function useTheme() {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme ?? "system");
  const next = () => {
    const chosen = THEMES[theme];
    if (chosen === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
    try {
      localStorage.setItem("penstock.theme", chosen);
    } catch {
      // Storage is switched off: the choice lasts until the page is left.
    }
    setTheme(chosen);
  };
  return [theme, next];
}

function Sidebar({ session, cluster, segments, showKeys, theme, nextTheme }) {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => setOpen(false), [segments.join("/"), cluster.name]);
  const leave = () => logout().catch(() => {});
  return html`
    <aside class=${isOpen ? "sidebar open" : "sidebar"}><div class="sidebar-inner">
      <div class="brand">
        <a href=${link()} class="mark" aria-label="Penstock console, overview"><img src=${ICON} alt="" width="18" height="18" /> Penstock</a>
        <button type="button" class="menu" aria-expanded=${String(isOpen)} aria-controls="navigation" onClick=${() => setOpen(!isOpen)}>Menu</button>
      </div>
      <div class="sidebar-body" id="navigation">
        ${session.clusters.length > 1
          ? html`<label class="cluster"><span class="hidden">Cluster</span><select value=${cluster.name} onChange=${(event) => go(`/c/${encodeURIComponent(event.target.value)}/`)}>${session.clusters.map((each) => html`<option key=${each.name} value=${each.name} selected=${each.name === cluster.name}>${visible(each.name)}</option>`)}</select></label>`
          : html`<div class="cluster" title=${cluster.bootstrap}><strong>${visible(cluster.name)}</strong><span class="about">${visible(cluster.bootstrap)}</span></div>`}
        <nav aria-label="Pages"><ul>
          ${NAVIGATION.map(([page, title, , icon]) => html`<li key=${page}><a href=${page ? link(page) : link()} aria-current=${(segments[0] ?? "") === page ? "page" : undefined}><${Icon} path=${icon} />${title}</a></li>`)}
        </ul></nav>
        <div class="sidebar-foot">
          ${cluster.read_only && html`<p class="tag warning" title=${cluster.read_only_reason ?? ""}>Read-only</p>`}
          ${cluster.user && html`<p class="about">Logged in as <strong>${visible(cluster.user)}</strong></p><button type="button" class="quiet" onClick=${leave}>Log out</button>`}
          <button type="button" class="quiet" onClick=${nextTheme} title="Switch between the system's theme, light and dark">Theme: ${theme}</button>
          <button type="button" class="quiet" onClick=${showKeys}>Keys <kbd>?</kbd></button>
          <p class="about">Version ${session.version}</p>
        </div>
      </div>
    </div></aside>`;
}

function KeysDialog({ onClose }) {
  return html`
    <${Dialog} title="Keys" onClose=${onClose} size="large">
      <div class="dialog-body keys">
        ${activeKeys().map((each) => html`
          <section key=${each.section}><h3>${each.section}</h3>
            <dl>${each.bindings.map(([keys, label]) => html`<div key=${keys}><dt>${keys.split(" ").map((key) => html`<kbd>${key}</kbd>`)}</dt><dd>${label}</dd></div>`)}</dl>
          </section>`)}
      </div>
    </${Dialog}>`;
}

function Frame({ session, cluster, segments }) {
  const [areKeysShown, setKeysShown] = useState(false);
  const [theme, nextTheme] = useTheme();
  useKeys("Everywhere", [
    ["?", "List the keys", () => setKeysShown(true)],
    ["/", "Search or filter", () => document.querySelector("main [data-search]")?.focus()],
    ["c", "Create, produce or change: the main action of the page", () => document.querySelector("main [data-shortcut=main]")?.click()],
    ["h", "Switch the theme", nextTheme],
    ...NAVIGATION.map(([page, title, key]) => [`g ${key}`, `Go to ${title === "SQL" ? title : title.toLowerCase()}`, () => go(page ? link(page) : link())]),
  ]);
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector("main h1")?.focus(); }}>Skip to the content</a>
    <${Sidebar} session=${session} cluster=${cluster} segments=${segments} showKeys=${() => setKeysShown(true)} theme=${theme} nextTheme=${nextTheme} />
    <main id="main"><${CurrentPage} segments=${segments} cluster=${cluster.name} /></main>
    <${ChangeHost} />
    ${areKeysShown && html`<${KeysDialog} onClose=${() => setKeysShown(false)} />`}`;
}

function Alone({ module, ...properties }) {
  const [Content] = usePage(module);
  return html`<main id="main" class="alone">${Content && html`<${Content} ...${properties} />`}</main>`;
}

// Requested before the first drawing, because everything else waits for it.
const opening = loadSession();
opening.catch(() => {
  // App reports it.
});

function App() {
  const session = useSession();
  const { cluster: name, segments } = useRoute();
  const [problem, setProblem] = useState(null);
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    (attempt === 0 ? opening : loadSession()).then(() => setProblem(null), (error) => {
      setProblem(error);
      setTimeout(() => setAttempt((each) => each + 1), 2000);
    });
  }, [attempt]);
  if (session === null) return problem ? html`<main class="alone"><${Problem} problem=${problem} /></main>` : null;
  const cluster = session.clusters.find((each) => each.name === name);
  if (!cluster) return html`<${Alone} module="clusters" session=${session} wanted=${name} />`;
  if (cluster.login === "required") return html`<${Alone} module="login" cluster=${cluster} />`;
  return html`<${Frame} session=${session} cluster=${cluster} segments=${segments} />`;
}

listen();
followLinks();
render(html`<${App} />`, document.getElementById("app"));
