"""penstock acl: allow and deny operations, list and remove ACLs, and check what a user may do.

`kafka-acls` manages the same ACLs. A super user, or a user with Alter on the cluster, may change them.
"""

import shlex
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from penstock.actions.connection import Connection
from penstock.cli.completion import complete_user
from penstock.cli.confirm import YesOption, confirm
from penstock.cli.output import Format, FormatOption, show
from penstock.model.acl import OPERATIONS, WILDCARD, Acl, PatternType, Permission, operation_text

app = typer.Typer(
    help="Allow and deny operations (ACLs), and check what a user may do.",
    epilog="Example: penstock acl allow alice read topic:orders --command-config ./data/security/client.properties",
    no_args_is_help=True,
)

COLUMNS: Final = ("principal", "permission", "operation", "resource", "pattern", "host")
_PERMISSIONS: Final = {Permission.ALLOW: "allow", Permission.DENY: "deny"}

PrincipalArgument = Annotated[
    str,
    typer.Argument(
        metavar="PRINCIPAL",
        show_default=False,
        help="User: bob or User:bob, or '*' for every user.",
        autocompletion=complete_user,
    ),
]
OperationArgument = Annotated[
    str,
    typer.Argument(
        metavar="OPERATION",
        show_default=False,
        help="all, read, write, create, delete, alter, describe, describe-configs, alter-configs and so on.",
        autocompletion=lambda incomplete: [name for name in OPERATIONS if name.startswith(incomplete)],
    ),
]
ResourceArgument = Annotated[
    str,
    typer.Argument(
        metavar="RESOURCE",
        show_default=False,
        help="topic:NAME, group:NAME, txn:ID, user:NAME, token:NAME or cluster. 'topic:orders-*' is every topic that "
        "begins with orders-, 'topic:*' every topic.",
    ),
]
HostOption = Annotated[str, typer.Option("--host", metavar="IP", help="Address of the client; '*' is every address.")]


class PermissionFilter(StrEnum):
    """Which ACLs to remove."""

    ANY = "any"
    ALLOW = "allow"
    DENY = "deny"


@app.command("allow", epilog="Example: penstock acl allow alice read 'topic:orders-*'")
def allow(
    connection: Connection,
    principal: PrincipalArgument,
    operation: OperationArgument,
    resource: ResourceArgument,
    host: HostOption = WILDCARD,
) -> None:
    """Allow an operation. Read, write, delete and alter include describe."""
    _create(connection, _acl(principal, operation, resource, host, Permission.ALLOW))


@app.command("deny", epilog="Example: penstock acl deny alice write topic:orders")
def deny(
    connection: Connection,
    principal: PrincipalArgument,
    operation: OperationArgument,
    resource: ResourceArgument,
    host: HostOption = WILDCARD,
) -> None:
    """Deny an operation, even if another ACL allows it."""
    _create(connection, _acl(principal, operation, resource, host, Permission.DENY))


@app.command("list", epilog="Example: penstock acl list --principal alice")
def list_all(
    connection: Connection,
    principal: Annotated[
        str, typer.Option("--principal", metavar="PRINCIPAL", help="Only ACLs that name this user.")
    ] = "any",
    resource: Annotated[
        str,
        typer.Option(
            "--resource",
            metavar="RESOURCE",
            help="Only ACLs that apply to a resource such as topic:orders, that have the pattern 'topic:orders-*', or "
            "that are about a type such as topic.",
        ),
    ] = "any",
    format: FormatOption = Format.TABLE,
) -> None:
    """List ACLs."""
    from penstock.actions.acl_text import parse_filter
    from penstock.actions.acls import list_acls

    wanted = parse_filter(principal, resource=resource)
    if wanted.pattern_type == PatternType.LITERAL and wanted.resource_name != WILDCARD:
        wanted = wanted._replace(pattern_type=PatternType.MATCH)
    rows = [_row(acl) for acl in list_acls(connection, wanted)]
    show(rows, COLUMNS, format)
    if not rows and format is Format.TABLE:
        typer.echo("No ACL found. Run 'penstock acl allow --help' to see how to add one.", err=True)


@app.command("remove", epilog="Example: penstock acl remove alice any topic:orders --yes")
def remove(
    connection: Connection,
    principal: PrincipalArgument,
    operation: OperationArgument,
    resource: ResourceArgument,
    host: Annotated[str, typer.Option("--host", metavar="IP", help="Only ACLs for this address, or '*'.")] = "any",
    permission: Annotated[
        PermissionFilter, typer.Option("--permission", help="Which ACLs to remove.")
    ] = PermissionFilter.ANY,
    yes: YesOption = False,
) -> None:
    """Remove ACLs. Each argument may be 'any': 'acl remove alice any any' removes all ACLs of alice."""
    from penstock.actions.acl_text import check_host, parse_filter
    from penstock.actions.acls import list_acls, remove_acls
    from penstock.actions.errors import ActionError

    wanted = parse_filter(principal, operation, resource)
    if host != "any":
        wanted = wanted._replace(host=check_host(host))
    if permission is not PermissionFilter.ANY:
        wanted = wanted._replace(
            permission=Permission.DENY if permission is PermissionFilter.DENY else Permission.ALLOW
        )
    found = list_acls(connection, wanted)
    if not found:
        raise ActionError("No ACL matches. Nothing was changed.", code="UNKNOWN_ACL")
    _ask(found, yes=yes)
    for acl in remove_acls(connection, found):
        typer.echo(f"removed: {acl}")


@app.command("check", epilog="Example: penstock acl check alice read topic:orders")
def check(
    connection: Connection,
    principal: PrincipalArgument,
    operation: OperationArgument,
    resource: ResourceArgument,
    host: HostOption = WILDCARD,
    format: FormatOption = Format.TABLE,
) -> None:
    """Tell whether a user may do something, by which ACL, and what would change it.

    The exit code is 1 if it is denied. Without --host, only ACLs for all addresses count.
    """
    from penstock.actions import acl_text
    from penstock.actions.acl_check import Question
    from penstock.actions.acls import check_access

    one = acl_text.parse_one_resource(resource)
    number = acl_text.parse_one_operation(operation)
    acl_text.check_operation(number, one)
    question = Question(acl_text.parse_one_principal(principal), number, one, acl_text.check_host(host))
    checked = check_access(connection, question)
    _show_verdict(question, checked, format)
    if not checked.verdict.decision.is_allowed:
        raise typer.Exit(1)


@app.command("suggest", epilog="Example: penstock acl suggest --principal alice")
def suggest(
    connection: Connection,
    principal: Annotated[
        str | None, typer.Option("--principal", metavar="PRINCIPAL", help="Only what this user needs.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only the last minutes, hours or days: 30m, 12h, 7d.")
    ] = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Print the ACLs that would allow what was denied, from the audit.

    Run the brokers with authorizer.mode=audit to learn what your programs need without denying anything. Read each
    command before you run it: the audit also records requests that should stay denied.
    """
    import time

    from penstock.actions.acl_suggest import suggest_acls
    from penstock.actions.acl_text import parse_one_principal
    from penstock.cli.token import parse_period

    who = None if principal is None else parse_one_principal(principal)
    since_ms = None if since is None else int((time.time() - parse_period(since).total_seconds()) * 1000)
    suggestions = suggest_acls(connection, principal=who, since_ms=since_ms)
    if format is not Format.TABLE:
        rows = [
            {
                **_row(each.acl),
                "count": each.requests,
                "denied_by": "" if each.denied_by is None else str(each.denied_by),
                "command": _addition(each.acl),
            }
            for each in suggestions
        ]
        show(rows, [*COLUMNS, "count", "denied_by", "command"], format)
        return
    for each in suggestions:
        typer.echo(f"{_addition(each.acl)}  # {each.requests} requests")
        if each.denied_by is not None:
            typer.echo(f"  # has no effect while this exists: {each.denied_by}")
    if not suggestions:
        typer.echo("Nothing was denied that ACLs do not allow by now.", err=True)


def _acl(principal: str, operation: str, resource: str, host: str, permission: int) -> Acl:
    from penstock.actions.acl_text import check_host, check_operation, parse_operation, parse_principal, parse_resource

    pattern, number = parse_resource(resource), parse_operation(operation)
    check_operation(number, pattern)
    kind, name, pattern_type = pattern
    return Acl(kind, name, pattern_type, parse_principal(principal), check_host(host), number, permission)


def _create(connection: Connection, acl: Acl) -> None:
    from penstock.actions.acls import create_acls

    create_acls(connection, [acl])
    typer.echo(f"added: {acl}")


def _ask(found: list[Acl], *, yes: bool) -> None:
    if len(found) == 1:
        confirm(f"Remove the ACL '{found[0]}'?", yes=yes)
        return
    if not yes:
        for acl in found:
            typer.echo(acl, err=True)
    confirm(f"Remove {len(found)} ACLs?", yes=yes)


def _row(acl: Acl) -> dict[str, str]:
    from penstock.actions.acl_text import pattern_of

    return {
        "principal": acl.principal,
        "permission": _PERMISSIONS.get(acl.permission, "unknown"),
        "operation": operation_text(acl.operation),
        "resource": str(pattern_of(acl)),
        "pattern": "prefixed" if acl.pattern_type == PatternType.PREFIXED else "literal",
        "host": acl.host,
    }


def _show_verdict(question: Any, checked: Any, format: Format) -> None:
    verdict, knows_settings = checked
    row = {
        "verdict": "allowed" if verdict.decision.is_allowed else "denied",
        "principal": question.principal,
        "operation": operation_text(question.operation),
        "resource": str(question.resource),
        "host": question.host,
        "rule": _rule(verdict.decision.rule),
        "changes": [_removal(acl) for acl in verdict.remove] + ([_addition(verdict.add)] if verdict.add else []),
        "other_hosts": {host: _rule(each.rule) for host, each in verdict.elsewhere.items()},
        "knows_super_users": knows_settings,
    }
    if format is not Format.TABLE:
        show([row], list(row), format)
        return
    host = "" if question.host == WILDCARD else f" from {question.host}"
    typer.echo(f"{row['verdict']}: {row['principal']} {row['operation']} {row['resource']}{host}")
    typer.echo(f"rule: {row['rule']}")
    reverse = "deny" if verdict.decision.is_allowed else "allow"
    for command in row["changes"]:
        typer.echo(f"to {reverse} it: {command}")
    if not row["changes"]:
        typer.echo(f"to deny it: remove {question.principal} from the option super.users of every node")
    for other, rule in row["other_hosts"].items():
        typer.echo(f"from {other} it is {'denied' if verdict.decision.is_allowed else 'allowed'}: {rule}")
    if not knows_settings:
        typer.echo(
            "This login may not read the settings of the brokers, so super.users and allow.everyone.if.no.acl.found "
            "are not taken into account. Log in as a user with DescribeConfigs on the cluster.",
            err=True,
        )


def _rule(rule: Acl | str) -> str:
    return str(rule)


def _addition(acl: Acl) -> str:
    return _command(_PERMISSIONS[acl.permission], acl)


def _removal(acl: Acl) -> str:
    # Without a host, `remove` would also remove the ACLs for other hosts.
    return _command("remove", acl, "--host", acl.host, "--permission", _PERMISSIONS[acl.permission])


def _command(verb: str, acl: Acl, *options: str) -> str:
    row = _row(acl)
    name = acl.principal.removeprefix("User:")
    # A user whose name is the word for every user in a filter.
    principal = acl.principal if name.lower() == "any" else name
    if verb != "remove" and acl.host != WILDCARD:
        options = ("--host", acl.host)
    return shlex.join(("penstock", "acl", verb, principal, row["operation"], row["resource"], *options))
