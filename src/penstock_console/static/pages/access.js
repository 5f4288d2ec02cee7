// Quotas, users and ACLs.

import { html, useState } from "../vendor/htm-preact.js";
import { get, useData } from "../lib/api.js";
import { ChangeButton } from "../lib/change.js";
import { Fields, textOrNull } from "../lib/form.js";
import { count } from "../lib/format.js";
import { api, useQuery } from "../lib/router.js";
import { visible } from "../lib/text.js";
import { Command, Empty, Loaded, Page, Problem, Search, Section, Table, Tabs, Tag } from "../lib/ui.js";

const TABS = [["quotas", "Quotas"], ["users", "Users"], ["acls", "ACLs"]];
const PARTS = { quotas: Quotas, users: Users, acls: Acls };

export default function Access() {
  const [query, setQuery] = useQuery({ tab: "quotas", principal: "", resource: "" });
  const Part = PARTS[query.tab] ?? Quotas;
  return html`
    <${Page} title="Access">
      <${Tabs} label="Parts of the page" tabs=${TABS} current=${query.tab} onSelect=${(tab) => setQuery({ tab })} />
      <${Part} query=${query} setQuery=${setQuery} />
    </${Page}>`;
}

const KINDS = ["user", "client-id", "ip"];

function entityText(entity) {
  return KINDS.filter((each) => each in entity).map((each) => `${each} ${entity[each] === null ? "(default)" : entity[each]}`).join(", ");
}

// An empty field leaves the kind out; '*' is the default entity.
function toEntity(values) {
  const given = KINDS.map((each) => [each, (values[each] ?? "").trim()]).filter(([, value]) => value !== "");
  if (given.length === 0) throw new Error("Name a user, a client id or an IP address, or '*' for the default.");
  return Object.fromEntries(given.map(([each, value]) => [each, value === "*" ? null : value]));
}

const fromEntity = (entity) => Object.fromEntries(KINDS.filter((each) => each in entity).map((each) => [each, entity[each] ?? "*"]));

function quotaFields(names) {
  return [
    { name: "user", label: "User", isHalf: true, hint: "* is the default for all users." },
    { name: "client-id", label: "Client id", isHalf: true },
    { name: "ip", label: "IP address", isHalf: true, hint: "Not together with a user or client id." },
    { name: "name", label: "Quota", type: "select", isHalf: true, isRequired: true, options: Object.entries(names).map(([name, unit]) => [name, `${name} (${unit})`]) },
    { name: "value", label: "Limit", type: "number", min: 0, isRequired: true },
  ];
}

function Quotas() {
  const source = useData(api("quotas"), { every: 10000 });
  const names = source.data?.names ?? {};
  const setter = (label, initial, isSmall = false) => html`<${ChangeButton} label=${label} isPrimary=${!isSmall} isSmall=${isSmall} shortcut=${isSmall ? undefined : "main"} title="Set quota" action="quota.set" fields=${quotaFields(names)} initial=${{ name: Object.keys(names)[0] ?? "producer_byte_rate", ...initial }}
    toArguments=${(values) => ({ entity: toEntity(values), quotas: { [values.name]: Number(values.value) } })} onDone=${source.reload} />`;
  const columns = [
    { key: "entity", label: "Applies to", isWide: true, render: (each) => visible(entityText(each.entity)) },
    { key: "quotas", label: "Limits", render: (each) => Object.entries(each.quotas).map(([name, value]) => html`<div class="num"><span class="mono">${visible(name)}</span> ${count(value)} <span class="about minor">${visible(names[name] ?? "")}</span></div>`) },
    { key: "change", label: html`<span class="hidden">Actions</span>`, align: "right", render: (each) => html`<span class="actions end">${setter("Change", { ...fromEntity(each.entity), name: Object.keys(each.quotas)[0], value: String(Object.values(each.quotas)[0] ?? "") }, true)}
      <${ChangeButton} label="Remove" isDanger isSmall title="Remove quotas" action="quota.remove" toArguments=${() => ({ entity: each.entity, names: [] })} onDone=${source.reload} /></span>` },
  ];
  return html`
    <div class="toolbar"><span class="about">Rate limits per user, client id or IP address</span><span class="spring"></span>${setter("Set quota", {})}</div>
    <${Loaded} source=${source}>${(data) => html`<${Table} label="Quotas" columns=${columns} rows=${data.quotas} rowKey=${(each) => entityText(each.entity)}
      empty=${html`<${Empty} title="No quotas are set"><p>Every client may use as much as it wants.</p></${Empty}>`} />`}</${Loaded}>`;
}

const PASSWORD = { name: "password", label: "Password", type: "password", autocomplete: "new-password", placeholder: "generate one", hint: "A generated password is shown once." };

function Users() {
  const source = useData(api("users"), { every: 10000 });
  const columns = [
    { key: "user", label: "User", isWide: true, render: (each) => visible(each.user) },
    { key: "mechanisms", label: "Mechanisms", render: (each) => visible(each.mechanisms.join(", ")) },
    { key: "change", label: html`<span class="hidden">Actions</span>`, align: "right", render: (each) => html`<span class="actions end">
      <${ChangeButton} label="Password" isSmall title=${`New password for ${each.user}`} action="user.password" fields=${[PASSWORD]} initial=${{ password: "" }} toArguments=${(values) => ({ user: each.user, password: textOrNull(values.password) })} onDone=${source.reload} />
      <${ChangeButton} label="Remove" isDanger isSmall title="Remove user" action="user.remove" toArguments=${() => ({ user: each.user })} onDone=${source.reload} /></span>` },
  ];
  return html`
    <div class="toolbar"><span class="about">Users that log in with a password (SASL/SCRAM)</span><span class="spring"></span>
      <${ChangeButton} label="Add user" isPrimary shortcut="main" action="user.add" fields=${[{ name: "user", label: "User", isRequired: true }, PASSWORD]} initial=${{ user: "", password: "" }} toArguments=${(values) => ({ user: values.user, password: textOrNull(values.password) })} onDone=${source.reload} /></div>
    <${Loaded} source=${source}>${(data) => html`<${Table} label="Users" columns=${columns} rows=${data.users} rowKey=${(each) => each.user}
      empty=${html`<${Empty} title="There are no users"><p>Users matter once a listener requires a login (SASL).</p></${Empty}>`} />`}</${Loaded}>`;
}

function aclFields(operations) {
  const all = [...new Set(Object.values(operations).flat())].sort();
  return [
    { name: "principal", label: "Principal", isRequired: true, isHalf: true, placeholder: "User:alice" },
    { name: "permission", label: "Permission", type: "select", isRequired: true, isHalf: true, options: [["allow", "allow"], ["deny", "deny"]] },
    { name: "operation", label: "Operation", type: "select", isRequired: true, isHalf: true, options: all.map((each) => [each, each]) },
    { name: "resource", label: "Resource", isRequired: true, isHalf: true, placeholder: "topic:orders-*", hint: "topic:, group:, transactional-id:, user: or cluster, with * at the end for a prefix." },
    { name: "host", label: "Host", isRequired: true, isHalf: true },
  ];
}

const bare = ({ principal, permission, operation, resource, host }) => ({ principal, permission, operation, resource, host });

function Acls({ query, setQuery }) {
  const source = useData(api("acls", { principal: query.principal, resource: query.resource }), { every: 10000 });
  const operations = source.data?.operations ?? {};
  const columns = [
    { key: "principal", label: "Principal", isWide: true, render: (each) => visible(each.principal) },
    { key: "operation", label: "Operation", isTight: true, render: (each) => html`<${Tag} tone=${each.permission === "deny" ? "bad" : "good"}>${visible(each.permission)}</${Tag}> ${visible(each.operation)}` },
    { key: "resource", label: "Resource", render: (each) => html`<span class="mono">${visible(each.resource)}</span>` },
    { key: "host", label: "Host", isMinor: true, render: (each) => visible(each.host) },
    { key: "change", label: html`<span class="hidden">Actions</span>`, align: "right", render: (each) => html`<${ChangeButton} label="Remove" isDanger isSmall title="Remove ACL" action="acl.remove" toArguments=${() => ({ acls: [bare(each)] })} onDone=${source.reload} />` },
  ];
  if (source.problem?.code === "SECURITY_DISABLED") return html`<${Empty} title="This cluster has no authorizer"><p>${visible(source.problem.hint ?? "Every client may do everything. ACLs have an effect once the brokers are configured with an authorizer.")}</p></${Empty}>`;
  return html`
    <div class="toolbar">
      <${Search} label="Principal" placeholder="Principal" value=${query.principal} onChange=${(principal) => setQuery({ principal })} />
      <${Search} label="Resource" placeholder="Resource, such as topic:orders" value=${query.resource} onChange=${(resource) => setQuery({ resource })} />
      <span class="spring"></span>
      <${ChangeButton} label="Add ACL" isPrimary shortcut="main" action="acl.add" fields=${aclFields(operations)} initial=${{ permission: "allow", operation: "read", host: "*", principal: "", resource: "" }} toArguments=${(values) => ({ acls: [bare(values)] })} onDone=${source.reload} />
    </div>
    <${Loaded} source=${source}>${(data) => html`
      <${Table} label="ACLs" columns=${columns} rows=${data.acls} rowKey=${(each) => JSON.stringify(bare(each))} empty=${html`<${Empty} title=${query.principal || query.resource ? "No ACL matches" : "There are no ACLs"} />`} />
      <${Check} operations=${data.operations} />`}</${Loaded}>`;
}

function Check({ operations }) {
  const [values, setValues] = useState({ principal: "", operation: "read", resource: "", host: "*" });
  const [verdict, setVerdict] = useState(null);
  const [problem, setProblem] = useState(null);
  const fields = aclFields(operations).filter((each) => each.name !== "permission");
  const submit = async (event) => {
    event.preventDefault();
    setProblem(null);
    try {
      setVerdict(await get(api("acls", "check", values)));
    } catch (error) {
      setVerdict(null);
      setProblem(error);
    }
  };
  return html`
    <${Section} title="Check access" about="What would the authorizer decide, and which ACL decides it?">
      <form class="card" onSubmit=${submit}>
        <${Fields} fields=${fields} values=${values} set=${setValues} />
        <div class="form-foot"><button type="submit" class="primary">Check</button></div>
        <${Problem} problem=${problem} />
        ${verdict && html`<${Verdict} verdict=${verdict} />`}
      </form>
    </${Section}>`;
}

function aclText(acl) {
  return `${acl.principal} ${acl.permission} ${acl.operation} ${acl.resource} from ${acl.host}`;
}

function Verdict({ verdict }) {
  return html`
    <div role="status" class="result">
      <p class="verdict"><span class=${`dot ${verdict.allowed ? "good" : "bad"}`} aria-hidden="true"></span>${verdict.allowed ? "Allowed" : "Denied"}</p>
      <p>${visible(verdict.reason)}</p>
      ${verdict.rule && html`<p class="mono">${visible(aclText(verdict.rule))}</p>`}
      ${!verdict.complete && html`<p class="about">The settings of the brokers could not be read, so super users are not known.</p>`}
      ${verdict.add && html`<h3>This would allow it</h3><${Command} text=${verdict.add.command} />`}
      ${(verdict.remove ?? []).length > 0 && html`<h3>These ACLs would have to go</h3>${verdict.remove.map((each) => html`<p class="mono">${visible(each.command ?? aclText(each.acl ?? each))}</p>`)}`}
    </div>`;
}
