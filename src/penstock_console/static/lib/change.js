// Every change: fill in a form, look at the plan with the equivalent command, execute exactly that plan.

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { ApiProblem, get, post, useSession } from "./api.js";
import { Fields } from "./form.js";
import { count, NONE } from "./format.js";
import { route } from "./pages.js";
import { api } from "./router.js";
import { visible } from "./text.js";
import { Bar, Command, Copy, Dialog, Notice, Problem } from "./ui.js";

export function useCluster() {
  const session = useSession();
  return session?.clusters.find((each) => each.name === route().cluster) ?? null;
}

// A button that opens the dialog of a change. `fields` and `initial` describe the form; without fields the plan is made
// as soon as the dialog opens. `toArguments(values)` makes the arguments of the action, or throws a sentence.
export function ChangeButton({ label, isDanger = false, isPrimary = false, isSmall = false, isDisabled = false, shortcut, ...change }) {
  const cluster = useCluster();
  const readOnly = cluster?.read_only ? (cluster.read_only_reason ?? "The console is read-only.") : null;
  const classes = [isDanger ? "danger" : "", isPrimary ? "primary" : "", isSmall ? "small" : ""].filter(Boolean).join(" ");
  return html`
    <button type="button" class=${classes} disabled=${isDisabled || readOnly !== null} title=${readOnly ?? undefined} data-shortcut=${shortcut} onClick=${() => openChange({ title: label, ...change })}>${label}</button>`;
}

let show = () => {};
let opened = 0;

// Open the dialog of a change. It belongs to the frame, not to the row or page of the button: it must stay when that
// row disappears, which is what a removal does.
export function openChange(change) {
  opened += 1;
  show({ ...change, key: opened });
}

export function ChangeHost() {
  const [change, setChange] = useState(null);
  useEffect(() => {
    show = setChange;
    const close = () => setChange(null);
    addEventListener("popstate", close);
    return () => removeEventListener("popstate", close);
  }, []);
  if (change === null) return null;
  const { key, ...rest } = change;
  return html`<${ChangeDialog} key=${key} ...${rest} onClose=${() => setChange(null)} />`;
}

function ChangeDialog({ action, title, fields = [], initial = {}, toArguments = (values) => values, about, form, onClose, onDone }) {
  const hasForm = fields.length > 0 || form !== undefined;
  const [values, setValues] = useState(initial);
  const [step, setStep] = useState(hasForm ? "form" : "planning");
  const [plan, setPlan] = useState(null);
  const [outcome, setOutcome] = useState(null);
  const [problem, setProblem] = useState(null);
  const [isBusy, setBusy] = useState(false);

  const attempt = async (work) => {
    setBusy(true);
    setProblem(null);
    try {
      await work();
    } catch (error) {
      setProblem(error instanceof ApiProblem ? error : new ApiProblem(0, { message: error.message }));
    }
    setBusy(false);
  };

  const makePlan = () => attempt(async () => {
    setPlan(await post(api("changes", action, "plan"), toArguments(values)));
    setStep("plan");
  });

  const execute = () => attempt(async () => {
    try {
      const done = await post(api("changes", action, "execute"), { digest: plan.digest });
      setOutcome(done);
      setStep("done");
      onDone?.(done);
    } catch (error) {
      if (error.code === "PLAN_STALE" && error.error?.plan) setPlan(error.error.plan);
      throw error;
    }
  });

  useEffect(() => {
    if (!hasForm) makePlan();
  }, []);

  const submit = (event) => {
    event.preventDefault();
    makePlan();
  };

  const shown = step === "done" ? (plan?.title ?? title) : step === "plan" ? plan.title : title;
  return html`
    <${Dialog} title=${shown} onClose=${onClose} size=${step === "plan" || step === "done" ? "large" : ""}>
      ${step === "form" && html`
        <form onSubmit=${submit}>
          <div class="dialog-body">
            ${about && html`<p class="about">${about}</p>`}
            <${Fields} fields=${fields} values=${values} set=${setValues} />
            ${form?.({ values, set: setValues })}
            <${Problem} problem=${problem} />
          </div>
          <div class="dialog-foot">
            <button type="button" onClick=${onClose}>Cancel</button>
            <button type="submit" class="primary" disabled=${isBusy}>${isBusy ? "Planning…" : "Preview"}</button>
          </div>
        </form>`}
      ${step === "planning" && html`
        <div class="dialog-body">${problem ? html`<${Problem} problem=${problem} retry=${makePlan} />` : html`<p class="loading">Planning…</p>`}</div>
        <div class="dialog-foot"><button type="button" onClick=${onClose}>Cancel</button></div>`}
      ${step === "plan" && html`<${Preview} plan=${plan} problem=${problem} isBusy=${isBusy} onBack=${hasForm ? () => setStep("form") : null} onClose=${onClose} onExecute=${execute} />`}
      ${step === "done" && html`<${Outcome} outcome=${outcome} plan=${plan} onClose=${onClose} onDone=${onDone} />`}
    </${Dialog}>`;
}

function Preview({ plan, problem, isBusy, onBack, onClose, onExecute }) {
  const isBlocked = Boolean(plan.blocked);
  return html`
    <div class="dialog-body">
      ${problem?.code === "PLAN_STALE" ? html`<${Notice} kind="warning"><p role="alert"><strong>The cluster has changed since the preview, and nothing was executed.</strong> This is the new plan.</p></${Notice}>` : html`<${Problem} problem=${problem} />`}
      ${isBlocked && html`<${Notice} kind="error"><p role="alert">${visible(plan.blocked)}</p></${Notice}>`}
      ${(plan.warnings ?? []).map((each) => html`<${Notice} kind="warning"><p>${visible(each)}</p></${Notice}>`)}
      <${PlanRows} plan=${plan} />
      ${plan.command && html`<h3>Equivalent command</h3><${Command} text=${plan.command} />`}
    </div>
    <div class="dialog-foot">
      ${onBack && html`<button type="button" class="left" onClick=${onBack}>Back</button>`}
      <button type="button" onClick=${onClose}>Cancel</button>
      <button type="button" class=${plan.danger ? "danger solid" : "primary"} disabled=${isBusy || isBlocked || !plan.digest} onClick=${onExecute}>${isBusy ? "Executing…" : "Execute"}</button>
    </div>`;
}

function PlanRows({ plan }) {
  const rows = plan.rows ?? [];
  if (rows.length === 0) return html`<p class="about">Nothing would change.</p>`;
  // A note is a sentence: it gets a line of its own below its row.
  const columns = (plan.columns ?? Object.keys(rows[0])).filter((name) => name !== "note");
  const isNumeric = (name) => rows.every((row) => row[name] === null || row[name] === undefined || typeof row[name] === "number" || /^-?\d+$/.test(String(row[name])));
  return html`
    <div class="scroll plan" tabindex="0" role="region" aria-label="Preview">
      <table>
        <thead><tr>${columns.map((name) => html`<th scope="col" key=${name} class=${isNumeric(name) ? "right num" : ""}>${visible(name.replaceAll("_", " "))}</th>`)}</tr></thead>
        <tbody>${rows.map((row) => html`<tr class=${row.note ? "noted" : ""}>${columns.map((name) => html`<td key=${name} class=${`${isNumeric(name) ? "right num" : ""} ${name === "before" || name === "current" ? "before" : ""} ${name === "after" || name === "new" ? "after" : ""}`}>${name === "lag" ? count(row[name]) : cell(row[name])}</td>`)}</tr>${row.note && html`<tr class="note"><td colspan=${columns.length}>${cell(row.note)}</td></tr>`}`)}</tbody>
      </table>
    </div>
    ${plan.more_rows > 0 && html`<p class="about">and ${count(plan.more_rows)} more rows</p>`}`;
}

function cell(value) {
  if (value === null || value === undefined) return NONE;
  if (typeof value === "object") return visible(JSON.stringify(value));
  return visible(value);
}

function Outcome({ outcome, onClose, onDone }) {
  const close = useRef(null);
  useEffect(() => close.current?.focus(), []);
  return html`
    <div class="dialog-body">
      ${outcome.job ? html`<${Job} id=${outcome.job} onDone=${onDone} />` : html`<${Notice} kind="good"><p role="status">${visible(outcome.message)}</p></${Notice}>`}
      ${outcome.result?.password && html`
        <${Notice} kind="warning"><p>The password is shown only once.</p></${Notice}>
        <div class="command"><code>${visible(outcome.result.password)}</code><${Copy} text=${outcome.result.password} label="Copy password" /></div>`}
    </div>
    <div class="dialog-foot"><button type="button" class="primary" ref=${close} onClick=${onClose}>Close</button></div>`;
}

function Job({ id, onDone }) {
  const [job, setJob] = useState(null);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    let timer = null;
    let isOver = false;
    const look = async () => {
      try {
        const found = await get(api("jobs", id));
        if (isOver) return;
        setJob(found);
        setProblem(null);
        if (found.state !== "running") return onDone?.(found);
      } catch (error) {
        if (isOver) return;
        setProblem(error);
        if (error.status === 404) return;
      }
      timer = setTimeout(look, 500);
    };
    look();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [id]);
  const stop = () => post(api("changes", "jobs", id, "stop"), {}).catch(setProblem);
  return html`
    <${Problem} problem=${problem} />
    ${job && html`
      <${Notice} kind=${job.state === "failed" ? "error" : job.state === "done" ? "good" : "info"}><p role="status">${visible(job.message || job.state)}</p></${Notice}>
      ${job.error && html`<${Problem} problem=${job.error} />`}
      <${Bar} share=${job.total ? job.done / job.total : job.state === "done" ? 1 : 0} />
      <p class="about num">${count(job.done)}${job.total === null ? "" : ` of ${count(job.total)}`}</p>
      ${job.state === "running" && html`<button type="button" onClick=${stop}>Stop</button>`}`}`;
}
