"""Filters of ACLs, as in DescribeAcls and DeleteAcls, and the checks of new ACLs. Refuses: InvalidRequest."""

from typing import NamedTuple

from penstock.model.acl import (
    CLUSTER_NAME,
    OPERATION_NAMES,
    PATTERN_NAMES,
    PERMISSION_NAMES,
    RESOURCE_NAMES,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from penstock.model.errors import InvalidRequest


class AclFilter(NamedTuple):
    """Which ACLs to describe or delete; None and ANY match everything."""

    resource_type: int = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission: int = Permission.ANY

    def check(self) -> None:
        """Reject numbers that do not exist."""
        if self.resource_type not in RESOURCE_NAMES or self.pattern_type not in PATTERN_NAMES:
            raise InvalidRequest("Unknown patternFilter.")
        if self.operation not in OPERATION_NAMES or self.permission not in PERMISSION_NAMES:
            raise InvalidRequest("Unknown entryFilter.")

    @property
    def only(self) -> Acl | None:
        """Return the ACL that alone can match; None if several can."""
        kind, name, pattern, principal, host, operation, permission = self
        if name is None or principal is None or host is None or pattern in (PatternType.ANY, PatternType.MATCH):
            return None
        if kind == ResourceType.ANY or operation == Operation.ANY or permission == Permission.ANY:
            return None
        return Acl(kind, name, pattern, principal, host, operation, permission)

    def matches(self, acl: Acl) -> bool:
        return (
            (self.principal is None or self.principal == acl.principal)
            and (self.host is None or self.host == acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        wanted, name = self.pattern_type, self.resource_name
        if wanted not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if name is None:
            return True
        if wanted != PatternType.MATCH:
            return name == acl.resource_name
        if acl.pattern_type == PatternType.LITERAL:
            return acl.resource_name in (name, WILDCARD)
        return name.startswith(acl.resource_name)


def check_new(acl: Acl) -> None:
    """Reject an ACL that cannot be created, with Kafka's messages."""
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.resource_name:
        raise InvalidRequest("Invalid empty resource name")
    if acl.resource_type not in RESOURCE_NAMES or acl.resource_type == ResourceType.ANY:
        raise InvalidRequest(f"Invalid resourceType {RESOURCE_NAMES.get(acl.resource_type, 'UNKNOWN')}")
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise InvalidRequest(f"Invalid patternType {PATTERN_NAMES.get(acl.pattern_type, 'UNKNOWN')}")
    if acl.operation not in OPERATION_NAMES or acl.operation == Operation.ANY:
        raise InvalidRequest(f"Invalid operation {OPERATION_NAMES.get(acl.operation, 'UNKNOWN')}")
    if acl.permission not in (Permission.DENY, Permission.ALLOW):
        raise InvalidRequest(f"Invalid permissionType {PERMISSION_NAMES.get(acl.permission, 'UNKNOWN')}")
    kind, colon, name = acl.principal.partition(":")
    if not (kind and colon and name):
        raise InvalidRequest(f"expected a string in format principalType:principalName but got {acl.principal}")
    if not acl.host:
        raise InvalidRequest("The host of an ACL must not be empty")
