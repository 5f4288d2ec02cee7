// The settings of a topic, a broker or the cluster: search, edit several, and review them as one change.

import { html, useState } from "../vendor/htm-preact.js";
import { useData } from "./api.js";
import { openChange, useCluster } from "./change.js";
import { NONE } from "./format.js";
import { visible } from "./text.js";
import { Empty, Loaded, Search, Table, Tag } from "./ui.js";

// `address` is where the settings are read; `action` and `name` say what changes.
export function SettingsEditor({ address, action, name }) {
  const source = useData(address, { every: 0 });
  const [search, setSearch] = useState("");
  const [areAllShown, setAllShown] = useState(false);
  const [edits, setEdits] = useState({});
  const cluster = useCluster();

  const edit = (setting, value) => {
    const next = { ...edits };
    if (value === undefined) delete next[setting];
    else next[setting] = value;
    setEdits(next);
  };
  // A setting that the cluster does not list, such as one without a value for all brokers.
  const add = (event) => {
    event.preventDefault();
    const input = event.target.elements.setting;
    const wanted = input.value.trim();
    if (wanted) setEdits({ ...edits, [wanted]: edits[wanted] ?? "" });
    input.value = "";
  };
  const done = () => {
    setEdits({});
    source.reload();
  };
  const change = () => ({
    ...(name === undefined ? {} : { name: String(name) }),
    set: Object.fromEntries(Object.entries(edits).filter(([, value]) => value !== null)),
    unset: Object.entries(edits).filter(([, value]) => value === null).map(([each]) => each),
  });

  const columns = [
    { key: "name", label: "Setting", isWide: true, render: (each) => html`<span class="setting-name">${visible(each.name)}</span>` },
    { key: "value", label: "Value", render: (each) => html`<${Value} setting=${each} edited=${edits[each.name]} edit=${edit} isFixed=${each.read_only || cluster?.read_only} />` },
    { key: "default", label: "Default", isMinor: true, render: (each) => html`<span class="mono about">${visible(each.default ?? NONE)}</span>` },
    { key: "source", label: "Source", isMinor: true, render: (each) => (each.is_set ? html`<${Tag} tone="accent">${visible(each.source)}</${Tag}>` : html`<span class="about">${visible(each.source)}</span>`) },
  ];
  const changed = Object.keys(edits).length;
  return html`
    <div class="toolbar">
      <${Search} label="Search settings" placeholder="Search settings" value=${search} onChange=${setSearch} />
      ${!cluster?.read_only && html`<form class="add" onSubmit=${add}><input class="mono" name="setting" aria-label="Name of a setting to set" placeholder="name of another setting" spellcheck=${false} autocomplete="off" /><button type="submit">Set</button></form>`}
      <label class="check"><input type="checkbox" checked=${areAllShown} onChange=${(event) => setAllShown(event.target.checked)} /> Show defaults</label>
    </div>
    <${Loaded} source=${source}>${(data) => {
      const known = new Set(data.settings.map((each) => each.name));
      const added = Object.keys(edits).filter((each) => !known.has(each)).map((each) => ({ name: each, value: null, default: null, source: "new", is_set: false }));
      const rows = [...data.settings, ...added].filter((each) => each.name in edits || (search ? each.name.includes(search.trim()) : areAllShown || each.is_set));
      return html`<${Table} label="Settings" columns=${columns} rows=${rows} rowKey=${(each) => each.name} rowClass=${(each) => (each.name in edits ? "changed" : "")}
        empty=${html`<${Empty} title=${search ? "No setting matches" : "Every setting has its default value"}><p><button type="button" onClick=${() => { setSearch(""); setAllShown(true); }}>Show all settings</button></p></${Empty}>`} />`;
    }}</${Loaded}>
    ${changed > 0 && html`
      <div class="bottom-bar">
        <span>${changed === 1 ? "1 setting changed" : `${changed} settings changed`}</span>
        <button type="button" onClick=${() => setEdits({})}>Discard</button>
        <button type="button" class="primary" onClick=${() => openChange({ title: "Change settings", action, toArguments: change, onDone: done })}>Review changes</button>
      </div>`}`;
}

function Value({ setting, edited, edit, isFixed }) {
  if (edited === null) return html`<span class="setting-edit"><em class="about">back to the default</em><button type="button" class="small" onClick=${() => edit(setting.name, undefined)}>Undo</button></span>`;
  if (edited !== undefined) {
    return html`<span class="setting-edit"><input class="mono" aria-label=${`Value of ${setting.name}`} value=${edited} onInput=${(event) => edit(setting.name, event.target.value)} /><button type="button" class="small" onClick=${() => edit(setting.name, undefined)}>Undo</button></span>`;
  }
  return html`<span class="setting-edit"><span class="mono">${setting.sensitive ? html`<em class="about">hidden</em>` : visible(setting.value ?? NONE)}</span>
    ${!isFixed && html`<button type="button" class="small" aria-label=${`Edit ${setting.name}`} onClick=${() => edit(setting.name, setting.value ?? "")}>Edit</button>
      ${setting.is_set && html`<button type="button" class="small" aria-label=${`Reset ${setting.name} to its default`} onClick=${() => edit(setting.name, null)}>Reset</button>`}`}</span>`;
}
