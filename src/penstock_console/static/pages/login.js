// Login with a user and a password of the cluster.

import { html, useState } from "../vendor/htm-preact.js";
import { login } from "../lib/api.js";
import { Fields } from "../lib/form.js";
import { visible } from "../lib/text.js";
import { Page, Problem } from "../lib/ui.js";

const FIELDS = [
  { name: "user", label: "User", isRequired: true, autocomplete: "username" },
  { name: "password", label: "Password", type: "password", isRequired: true, autocomplete: "current-password" },
];

export default function Login({ cluster }) {
  const [values, setValues] = useState({ user: "", password: "" });
  const [problem, setProblem] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      await login(cluster.name, values.user, values.password);
    } catch (error) {
      setProblem(error);
      setBusy(false);
    }
  };
  return html`
    <${Page} title="Log in" about=${html`Use a user of the cluster <strong>${visible(cluster.name)}</strong> (${visible(cluster.bootstrap)}). Its ACLs decide what you may do. The console keeps the password in memory only.`}>
      <form class="card narrow" onSubmit=${submit}>
        <${Fields} fields=${FIELDS} values=${values} set=${setValues} />
        <${Problem} problem=${problem} />
        <div class="form-foot"><button type="submit" class="primary" disabled=${isBusy}>${isBusy ? "Logging in…" : "Log in"}</button></div>
      </form>
    </${Page}>`;
}
