"""Changes of the settings of topics, of single brokers and of all brokers."""

from functools import partial

from penstock.actions.configs import Resource, ResourceType, alter_config, describe_config
from penstock.actions.plurals import count_of
from penstock_console.changes.topics import texts
from penstock_console.errors import bad_request
from penstock_console.jobs import Job
from penstock_console.lookup import find_topic
from penstock_console.parameters import integer
from penstock_console.plans import AND, Change, Context, Outcome, Plan

HIDDEN = "(hidden)"


def plan_settings(kind: ResourceType, context: Context) -> Plan:
    access, arguments = context.access, context.arguments
    resource, option = _resource(kind, context)
    wanted, unset = texts(arguments.mapping("set")), arguments.texts("unset")
    if not wanted and not unset:
        raise bad_request("Nothing to change: 'set' and 'unset' are empty.")
    if both := sorted(set(wanted) & set(unset)):
        raise bad_request(f"Setting '{both[0]}' is in both 'set' and 'unset'.")
    present = describe_config(access.connection, resource)
    rows = []
    for name in sorted({*wanted, *unset}):
        entry = present.get(name)
        is_hidden = entry is not None and entry.is_sensitive
        before = entry.value if entry is not None else None
        after = wanted.get(name, entry.default if entry is not None else None)
        rows.append(
            {
                "setting": name,
                "before": HIDDEN if is_hidden else before,
                "after": HIDDEN if is_hidden and name in wanted else after if name in wanted else after or "(default)",
                "source": entry.source if entry is not None else None,
            }
        )
    # A cluster's own settings are listed only if they are set.
    unknown = [row["setting"] for row in rows if row["setting"] not in present] if resource.name else []
    fixed = [name for name, entry in present.items() if entry.is_read_only and name in {*wanted, *unset}]
    blocked = None
    if unknown:
        blocked = f"There is no setting '{unknown[0]}'. Check the name."
    elif fixed:
        blocked = f"Setting '{fixed[0]}' cannot be changed while the broker runs. Change its configuration file."

    def execute(job: Job) -> Outcome:
        alter_config(access.connection, resource, {**wanted, **dict.fromkeys(unset)})
        return Outcome(f"Changed {count_of(len(rows), 'setting')}.")

    title = {"TOPIC": f"topic {resource.name}", "BROKER": f"node {resource.name}", "CLUSTER": "all nodes"}[kind.name]
    command = ["penstock", "config", "set", *option, *(f"{name}={_shown(present, name, wanted)}" for name in wanted)]
    if unset:
        command = ["penstock", "config", "unset", *option, *unset]
    if unset and wanted:
        # One command line for both would need two commands; the first is shown as well.
        pairs = [f"{name}={_shown(present, name, wanted)}" for name in wanted]
        command = ["penstock", "config", "set", *option, *pairs, AND, *command]
    return Plan(
        title=f"Change settings of {title}",
        command=command,
        columns=["setting", "before", "after", "source"],
        rows=rows,
        execute=execute,
        blocked=blocked,
    )


def _shown(present: object, name: str, wanted: dict[str, str]) -> str:
    entry = present.get(name) if isinstance(present, dict) else None
    return HIDDEN if entry is not None and entry.is_sensitive else wanted[name]


def _resource(kind: ResourceType, context: Context) -> tuple[Resource, list[str]]:
    if kind is ResourceType.CLUSTER:
        return Resource(kind), ["--cluster"]
    name = context.arguments.text("name")
    if kind is ResourceType.TOPIC:
        find_topic(context.access, name)
        return Resource(kind, name), ["--topic", name]
    integer("name", name, most=2**31 - 1)
    return Resource(kind, name), ["--broker", name]


CHANGES = (
    Change(
        action="topic.settings",
        doc="Change settings of a topic.",
        arguments=("name", "set", "unset"),
        plan=partial(plan_settings, ResourceType.TOPIC),
        secrets=(),
    ),
    Change(
        action="node.settings",
        doc="Change settings of a broker.",
        arguments=("name", "set", "unset"),
        plan=partial(plan_settings, ResourceType.BROKER),
        secrets=("set",),
    ),
    Change(
        action="cluster.settings",
        doc="Change settings of all brokers.",
        arguments=("set", "unset"),
        plan=partial(plan_settings, ResourceType.CLUSTER),
        secrets=("set",),
    ),
)
