"""ACLs as people write them: `bob`, `read`, `topic:orders-*`.

| resource                       | pattern                                                            |
|--------------------------------|--------------------------------------------------------------------|
| `topic:orders`                 | literal: this name                                                 |
| `topic:orders-*`               | prefixed: every name that begins with `orders-`                    |
| `topic:*`                      | literal: every name                                                |
| `group:a\\*`                    | literal: the name `a*`                                             |
| `cluster`                      | the cluster                                                        |
| `user:bob`                     | the user `User:bob`, whose delegation tokens others may manage     |

In a filter, `any` matches everything, and a type without a name every pattern of that type. Raises ActionError for
text that has no meaning.
"""

from ipaddress import ip_address
from typing import Final, NamedTuple

from penstock.actions.errors import ActionError
from penstock.model.acl import (
    CLUSTER_NAME,
    ESCAPED_WILDCARD,
    EVERYBODY,
    OPERATION_NAMES,
    OPERATIONS,
    OPERATIONS_OF,
    RESOURCE_WORDS,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    ResourceType,
    operation_text,
    resource_text,
)
from penstock.security.acl_filter import AclFilter
from penstock_client.errors import nearest

ANY: Final = "any"
_USER: Final = "User:"


class ResourcePattern(NamedTuple):
    type: int
    name: str
    pattern_type: int = PatternType.LITERAL

    def __str__(self) -> str:
        return resource_text(self.type, self.name, self.pattern_type)


def pattern_of(acl: Acl) -> ResourcePattern:
    return ResourcePattern(acl.resource_type, acl.resource_name, acl.pattern_type)


def parse_principal(text: str) -> str:
    """Return the principal of a user: `bob`, `User:bob` or `*`."""
    name = text[len(_USER) :] if text.lower().startswith(_USER.lower()) else text
    if not name.strip():
        raise ActionError(f"Invalid principal '{text}': expected a user name such as bob, or * for every user.")
    return _USER + name


def parse_operation(text: str) -> int:
    """Return the operation with this name in any spelling: DescribeConfigs, describe_configs, describe-configs."""
    wanted = text.upper().replace("_", "").replace("-", "")
    for number, name in OPERATION_NAMES.items():
        if name.replace("_", "") == wanted and number != Operation.ANY:
            return number
    raise ActionError(f"Unknown operation '{text}'.{nearest(text, OPERATIONS)} Use one of: {', '.join(OPERATIONS)}.")


def parse_one_principal(text: str) -> str:
    """Return the principal of one user."""
    principal = parse_principal(text)
    if principal == EVERYBODY:
        raise ActionError(f"Invalid principal '{text}': a request is sent by one user. Write a user name.")
    return principal


def parse_one_operation(text: str) -> int:
    """Return a single operation."""
    operation = parse_operation(text)
    if operation == Operation.ALL:
        raise ActionError(f"Invalid operation '{text}': a request needs a single one, such as read.")
    return operation


def parse_resource(text: str) -> ResourcePattern:
    kind, colon, name = text.partition(":")
    number = _parse_type(kind, text)
    if number == ResourceType.CLUSTER:
        if colon and name != CLUSTER_NAME:
            raise ActionError(f"Invalid resource '{text}': the cluster has no name. Write cluster.")
        return ResourcePattern(number, CLUSTER_NAME)
    if not name:
        raise ActionError(f"Invalid resource '{text}': a name is missing. Write {kind}:NAME, or {kind}:* for all.")
    if name == WILDCARD:
        return ResourcePattern(number, WILDCARD)
    if number == ResourceType.USER:
        name = parse_principal(name)
    if name.endswith(ESCAPED_WILDCARD):
        return ResourcePattern(number, name.removesuffix(ESCAPED_WILDCARD) + WILDCARD)
    if name.endswith(WILDCARD):
        return ResourcePattern(number, name.removesuffix(WILDCARD), PatternType.PREFIXED)
    return ResourcePattern(number, name)


def parse_one_resource(text: str) -> ResourcePattern:
    """Return a single resource, not a pattern of several."""
    resource = parse_resource(text)
    if resource.pattern_type == PatternType.PREFIXED or resource.name == WILDCARD:
        raise ActionError(f"Invalid resource '{text}': a request is about one resource. Write its full name.")
    return resource


def check_operation(operation: int, resource: ResourcePattern) -> None:
    """Reject an operation that does not exist on a type of resource: no request would ever need it."""
    possible = OPERATIONS_OF[resource.type]
    if operation not in (Operation.ALL, *possible):
        names = ", ".join(map(operation_text, (Operation.ALL, *possible)))
        raise ActionError(f"Operation '{operation_text(operation)}' does not apply to {resource}. Use one of: {names}.")


def check_host(host: str) -> str:
    """Return the host of an ACL; a host name would never match."""
    if host != WILDCARD:
        try:
            ip_address(host)
        except ValueError:
            raise ActionError(f"Invalid host '{host}': expected an IP address, or * for every host.") from None
    return host


def parse_filter(principal: str = ANY, operation: str = ANY, resource: str = ANY) -> AclFilter:
    """Return a filter for exactly these patterns; `any` matches everything."""
    found = AclFilter()
    if principal.lower() != ANY:
        found = found._replace(principal=parse_principal(principal))
    if operation.lower() != ANY:
        found = found._replace(operation=parse_operation(operation))
    if resource.lower() == ANY:
        return found
    if ":" not in resource:
        return found._replace(resource_type=_parse_type(resource, resource))
    kind, name, pattern_type = parse_resource(resource)
    return found._replace(resource_type=kind, resource_name=name, pattern_type=pattern_type)


def _parse_type(kind: str, text: str) -> int:
    found = RESOURCE_WORDS.get(kind.lower())
    if found is None:
        known = ", ".join(each if each == "cluster" else f"{each}:NAME" for each in RESOURCE_WORDS)
        raise ActionError(f"Invalid resource '{text}'.{nearest(kind, RESOURCE_WORDS)} Use one of: {known}.")
    return found
