"""Changes of quotas, users and ACLs."""

from functools import partial
from typing import Any

from penstock.actions.acls import create_acls, list_acls, remove_acls
from penstock.actions.plurals import count_of
from penstock.actions.quotas import describe_quotas, remove_quotas, set_quotas
from penstock.actions.users import add_user, change_password, generate_password, list_users, remove_user
from penstock.security.acl_filter import AclFilter
from penstock_console.access_text import acl_row, acl_words, entity_options, parse_acl, parse_entity
from penstock_console.errors import bad_request
from penstock_console.jobs import Job
from penstock_console.plans import AND, Change, Context, Outcome, Plan

ACLS_MAX = 100


def plan_set_quotas(context: Context) -> Plan:
    access = context.access
    entity = parse_entity(context.arguments.mapping("entity"))
    wanted = context.arguments.mapping("quotas")
    if not wanted or not all(_is_rate(value) for value in wanted.values()):
        raise bad_request("Invalid quotas: expected an object of names and positive numbers.")
    present = _quotas(context, entity)
    rows = [{"name": name, "before": present.get(name), "after": value} for name, value in sorted(wanted.items())]

    def execute(job: Job) -> Outcome:
        set_quotas(access.connection, entity, {name: float(value) for name, value in wanted.items()})
        return Outcome(f"Set {count_of(len(wanted), 'quota')}.")

    pairs = [f"{name}={value}" for name, value in sorted(wanted.items())]
    return Plan(
        title="Set quotas",
        command=["penstock", "quota", "set", *pairs, *entity_options(entity)],
        columns=["name", "before", "after"],
        rows=rows,
        execute=execute,
    )


def _is_rate(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e18


def plan_remove_quotas(context: Context) -> Plan:
    access = context.access
    entity = parse_entity(context.arguments.mapping("entity"))
    present = _quotas(context, entity)
    names = context.arguments.texts("names") or sorted(present)
    missing = [name for name in names if name not in present]

    def execute(job: Job) -> Outcome:
        removed = remove_quotas(access.connection, entity, names)
        return Outcome(f"Removed {count_of(len(removed), 'quota')}.")

    return Plan(
        title="Remove quotas",
        command=["penstock", "quota", "remove", *names, *entity_options(entity)],
        columns=["name", "before", "after"],
        rows=[{"name": name, "before": present.get(name), "after": None} for name in names],
        execute=execute,
        blocked="These quotas are not set." if missing or not names else None,
    )


def _quotas(context: Context, entity: dict[str, str | None]) -> dict[str, int | float]:
    found = describe_quotas(context.access.connection, entity)
    return next((each.quotas for each in found if each.entity == entity), {})


# -- users -----------------------------------------------------------------------------------


def plan_user(verb: str, context: Context) -> Plan:
    """Plan to add, change or remove a user."""
    access, name = context.access, context.arguments.text("user")
    present = next((user for user in list_users(access.connection) if user.name == name), None)
    blocked = None
    if verb == "add" and present is not None:
        blocked = f"User '{name}' already exists. Change its password instead."
    elif verb != "add" and present is None:
        blocked = f"User '{name}' does not exist."
    given = context.arguments.optional_text("password") if verb != "remove" else None

    def execute(job: Job) -> Outcome:
        if verb == "remove":
            remove_user(access.connection, name)
            return Outcome(f"Removed user {name}.")
        password = given or generate_password()
        (add_user if verb == "add" else change_password)(access.connection, name, password)
        result = {} if given else {"password": password}
        return Outcome(f"{'Added' if verb == 'add' else 'Changed the password of'} user {name}.", result)

    word = {"add": "add", "password": "passwd", "remove": "remove"}[verb]
    command: list[str] = ["penstock", "user", word, name]
    if given:
        command = [*command, "--password-stdin"]
    if verb == "remove":
        command = [*command, "--yes"]
    title = {"add": "Add user", "password": "Change the password of user", "remove": "Remove user"}[verb]
    before = ", ".join(present.mechanisms) if present is not None else None
    after = None if verb == "remove" else "SCRAM-SHA-256, SCRAM-SHA-512"
    return Plan(
        title=f"{title} {name}",
        command=command,
        columns=["user", "before", "after"],
        rows=[{"user": name, "before": before, "after": after}],
        execute=execute,
        blocked=blocked,
        danger=verb == "remove",
    )


# -- ACLs ------------------------------------------------------------------------------------


def plan_acls(is_removal: bool, context: Context) -> Plan:
    access = context.access
    given = context.arguments.items("acls")
    if not 0 < len(given) <= ACLS_MAX:
        raise bad_request(f"Give 1 to {ACLS_MAX} ACLs.")
    acls = list(dict.fromkeys(map(parse_acl, given)))
    present = set(list_acls(access.connection, AclFilter()))
    rows = [{**acl_row(acl), "exists": "yes" if acl in present else "no"} for acl in acls]
    has_effect = any((acl in present) == is_removal for acl in acls)

    def execute(job: Job) -> Outcome:
        if is_removal:
            return Outcome(f"Removed {count_of(len(remove_acls(access.connection, acls)), 'ACL')}.")
        create_acls(access.connection, acls)
        return Outcome(f"Added {count_of(len(acls), 'ACL')}.")

    words: list[str] = []
    for acl in acls:
        words += [*([AND] if words else []), *acl_words(acl, remove=is_removal)]
    nothing = "These ACLs do not exist." if is_removal else "These ACLs exist already."
    return Plan(
        title="Remove ACLs" if is_removal else "Add ACLs",
        command=words,
        columns=["principal", "permission", "operation", "resource", "host", "exists"],
        rows=rows,
        execute=execute,
        blocked=None if has_effect else nothing,
        danger=is_removal,
    )


CHANGES = (
    Change(action="quota.set", doc="Set quotas.", arguments=("entity", "quotas"), plan=plan_set_quotas),
    Change(action="quota.remove", doc="Remove quotas.", arguments=("entity", "names"), plan=plan_remove_quotas),
    Change(
        action="user.add",
        doc="Add a user.",
        arguments=("user", "password"),
        plan=partial(plan_user, "add"),
        secrets=("password",),
    ),
    Change(
        action="user.password",
        doc="Change the password of a user.",
        arguments=("user", "password"),
        plan=partial(plan_user, "password"),
        secrets=("password",),
    ),
    Change(action="user.remove", doc="Remove a user.", arguments=("user",), plan=partial(plan_user, "remove")),
    Change(action="acl.add", doc="Add ACLs.", arguments=("acls",), plan=partial(plan_acls, False)),
    Change(action="acl.remove", doc="Remove ACLs.", arguments=("acls",), plan=partial(plan_acls, True)),
)
