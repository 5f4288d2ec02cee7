"""Quotas, users, ACLs, and whether a user may do something."""

from typing import Any

from penstock.actions import acl_text
from penstock.actions.acl_check import Question
from penstock.actions.acls import check_access, list_acls
from penstock.actions.quotas import describe_quotas
from penstock.actions.users import list_users
from penstock.model.acl import OPERATIONS_OF, RESOURCE_WORDS, WILDCARD, Acl, operation_text
from penstock.quotas.entity import QUOTA_MEANINGS
from penstock_console.access_text import acl_command, acl_row
from penstock_console.endpoints import Call, Endpoint
from penstock_console.parameters import Parameter


def show_quotas(call: Call) -> dict[str, Any]:
    found = describe_quotas(call.access.connection, {})
    names = {name: meaning.removesuffix(" (--ip only)") for name, meaning in QUOTA_MEANINGS.items()}
    return {"quotas": [{"entity": each.entity, "quotas": each.quotas} for each in found], "names": names}


def show_users(call: Call) -> dict[str, Any]:
    found = list_users(call.access.connection)
    return {"users": [{"user": each.name, "mechanisms": list(each.mechanisms)} for each in found]}


def show_acls(call: Call) -> dict[str, Any]:
    wanted = acl_text.parse_filter(principal=call["principal"] or "any", resource=call["resource"] or "any")
    operations = {name: ["all", *map(operation_text, OPERATIONS_OF[kind])] for name, kind in RESOURCE_WORDS.items()}
    return {"acls": [acl_row(acl) for acl in list_acls(call.access.connection, wanted)], "operations": operations}


def check(call: Call) -> dict[str, Any]:
    resource = acl_text.parse_one_resource(call["resource"])
    operation = acl_text.parse_one_operation(call["operation"])
    acl_text.check_operation(operation, resource)
    principal = acl_text.parse_one_principal(call["principal"])
    question = Question(principal, operation, resource, acl_text.check_host(call["host"]))
    verdict, is_complete = check_access(call.access.connection, question)
    rule = verdict.decision.rule
    is_acl = isinstance(rule, Acl)
    add = verdict.add
    return {
        "allowed": verdict.decision.is_allowed,
        "reason": None if is_acl else str(rule),
        "rule": acl_row(rule) if isinstance(rule, Acl) else None,
        "complete": is_complete,
        "add": {"acl": acl_row(add), "command": acl_command(add)} if add is not None else None,
        "remove": [{"acl": acl_row(acl), "command": acl_command(acl, remove=True)} for acl in verdict.remove],
        "other_hosts": sorted(verdict.elsewhere),
    }


ENDPOINTS = (
    Endpoint(path="quotas", doc="Client quotas.", read=show_quotas),
    Endpoint(path="users", doc="Users that log in with SCRAM.", read=show_users),
    Endpoint(
        path="acls",
        doc="ACLs.",
        read=show_acls,
        parameters=(
            Parameter(name="principal", default="", doc="Only ACLs of this user."),
            Parameter(name="resource", default="", doc="Only ACLs of this resource, for example topic:orders."),
        ),
    ),
    Endpoint(
        path="acls/check",
        doc="Whether a user may do something, and why.",
        read=check,
        parameters=(
            Parameter(name="principal", default="", doc="User."),
            Parameter(name="operation", default="", doc="Operation, for example read."),
            Parameter(name="resource", default="", doc="Resource, for example topic:orders."),
            Parameter(name="host", default=WILDCARD, doc="Address of the client."),
        ),
    ),
)
