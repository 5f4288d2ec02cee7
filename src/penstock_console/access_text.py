"""ACLs and quota entities as rows of the API and as commands. No I/O."""

import shlex
from collections.abc import Mapping
from typing import Any, Final

from penstock.actions.acl_text import (
    check_host,
    check_operation,
    parse_operation,
    parse_principal,
    parse_resource,
    pattern_of,
)
from penstock.model.acl import WILDCARD, Acl, Permission, operation_text
from penstock_console.errors import bad_request

PERMISSIONS: Final = {"allow": int(Permission.ALLOW), "deny": int(Permission.DENY)}
_NAMES: Final = {number: name for name, number in PERMISSIONS.items()}
ENTITY_TYPES: Final = ("user", "client-id", "ip")


def acl_row(acl: Acl) -> dict[str, str]:
    return {
        "principal": acl.principal,
        "permission": _NAMES.get(acl.permission, "unknown"),
        "operation": operation_text(acl.operation),
        "resource": str(pattern_of(acl)),
        "host": acl.host,
    }


def parse_acl(given: Any) -> Acl:
    """Return the ACL of a row."""
    known = ("principal", "permission", "operation", "resource", "host")
    if not isinstance(given, dict) or not all(name in known and isinstance(each, str) for name, each in given.items()):
        raise bad_request(f"Invalid ACL: expected an object with {', '.join(known)}.")
    permission = PERMISSIONS.get(given.get("permission", ""))
    if permission is None:
        raise bad_request("Invalid permission of an ACL: expected allow or deny.")
    pattern, operation = parse_resource(given.get("resource", "")), parse_operation(given.get("operation", ""))
    check_operation(operation, pattern)
    principal, host = parse_principal(given.get("principal", "")), check_host(given.get("host") or WILDCARD)
    return Acl(pattern.type, pattern.name, pattern.pattern_type, principal, host, operation, permission)


def acl_words(acl: Acl, *, remove: bool = False) -> list[str]:
    """Return the command that adds or removes an ACL."""
    row = acl_row(acl)
    name = acl.principal.removeprefix("User:")
    # A user whose name is the word for every user in a filter.
    principal = acl.principal if name.lower() == "any" else name
    options = ["--host", acl.host] if remove or acl.host != WILDCARD else []
    if remove:
        options += ["--permission", row["permission"], "--yes"]
    verb = "remove" if remove else row["permission"]
    return ["penstock", "acl", verb, principal, row["operation"], row["resource"], *options]


def acl_command(acl: Acl, *, remove: bool = False) -> str:
    return shlex.join(acl_words(acl, remove=remove))


def parse_entity(given: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the entity of a quota; null stands for the default entity."""
    if not given or not all(name in ENTITY_TYPES and isinstance(each, str | None) for name, each in given.items()):
        raise bad_request("Invalid entity: expected an object with user, client-id or ip; null is the default.")
    return dict(given)


def entity_options(entity: Mapping[str, str | None]) -> list[str]:
    return [word for kind, name in entity.items() for word in (f"--{kind}", "default" if name is None else name)]
