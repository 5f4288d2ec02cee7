"""Access control entries (ACLs), and the rights that APIs require. Numbers are Kafka's. Values only."""

from typing import Final, NamedTuple


class ResourceType:
    ANY: Final = 1
    TOPIC: Final = 2
    GROUP: Final = 3
    CLUSTER: Final = 4
    TRANSACTIONAL_ID: Final = 5
    DELEGATION_TOKEN: Final = 6
    USER: Final = 7


class PatternType:
    ANY: Final = 1
    MATCH: Final = 2
    LITERAL: Final = 3
    PREFIXED: Final = 4


class Operation:
    ANY: Final = 1
    ALL: Final = 2
    READ: Final = 3
    WRITE: Final = 4
    CREATE: Final = 5
    DELETE: Final = 6
    ALTER: Final = 7
    DESCRIBE: Final = 8
    CLUSTER_ACTION: Final = 9
    DESCRIBE_CONFIGS: Final = 10
    ALTER_CONFIGS: Final = 11
    IDEMPOTENT_WRITE: Final = 12
    CREATE_TOKENS: Final = 13
    DESCRIBE_TOKENS: Final = 14
    TWO_PHASE_COMMIT: Final = 15


class Permission:
    ANY: Final = 1
    DENY: Final = 2
    ALLOW: Final = 3


def _names(kind: type) -> dict[int, str]:
    return {value: name for name, value in vars(kind).items() if not name.startswith("_")}


RESOURCE_NAMES: Final = _names(ResourceType)
PATTERN_NAMES: Final = _names(PatternType)
OPERATION_NAMES: Final = _names(Operation)
PERMISSION_NAMES: Final = _names(Permission)

CLUSTER_NAME: Final = "kafka-cluster"
WILDCARD: Final = "*"
ESCAPED_WILDCARD: Final = "\\*"
EVERYBODY: Final = "User:*"

OPERATIONS_OF: Final = {
    ResourceType.TOPIC: (3, 4, 5, 6, 7, 8, 10, 11),
    ResourceType.GROUP: (3, 6, 8, 10, 11),
    ResourceType.CLUSTER: (5, 7, 8, 9, 10, 11, 12),
    ResourceType.TRANSACTIONAL_ID: (4, 8, 15),
    ResourceType.DELEGATION_TOKEN: (8,),
    ResourceType.USER: (13, 14),
}
"""The operations that exist on each type of resource."""


def all_operations(resource_type: int) -> int:
    """Return all operations on a type of resource as bits, for the fields with authorized operations."""
    return sum(1 << operation for operation in OPERATIONS_OF[resource_type])


RESOURCE_WORDS: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "txn": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.CLUSTER,
    "user": ResourceType.USER,
    "token": ResourceType.DELEGATION_TOKEN,
}
"""The types of resources as `penstock acl` spells them."""
_WORDS: Final = {number: word for word, number in RESOURCE_WORDS.items()}


def operation_text(operation: int) -> str:
    return OPERATION_NAMES.get(operation, "unknown").lower().replace("_", "-")


OPERATIONS: Final = tuple(operation_text(each) for each in sorted(set(OPERATION_NAMES) - {Operation.ANY}))
"""The operations of an ACL as `penstock acl` spells them."""


def resource_text(resource_type: int, name: str, pattern_type: int = PatternType.LITERAL) -> str:
    """Return a resource or a pattern of resources as `penstock acl` spells it, such as `topic:orders-*`."""
    word = _WORDS.get(resource_type, "unknown")
    if resource_type == ResourceType.CLUSTER:
        return word
    if resource_type == ResourceType.USER:
        name = name.removeprefix("User:")
    if pattern_type == PatternType.PREFIXED:
        name += WILDCARD
    elif name.endswith(WILDCARD) and name != WILDCARD:
        name = name.removesuffix(WILDCARD) + ESCAPED_WILDCARD
    return f"{word}:{name}"


class Acl(NamedTuple):
    """One access control entry."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    def __str__(self) -> str:
        """Return the ACL in the words of `penstock acl`."""
        host = "" if self.host == WILDCARD else f" from {self.host}"
        verb = PERMISSION_NAMES.get(self.permission, "unknown").lower()
        resource = resource_text(self.resource_type, self.resource_name, self.pattern_type)
        return f"{verb} {self.principal} {operation_text(self.operation)} {resource}{host}"


class Right(NamedTuple):
    """An operation on a type of resource."""

    operation: int
    resource_type: int

    def __str__(self) -> str:
        return f"{RESOURCE_NAMES[self.resource_type]} {OPERATION_NAMES[self.operation]}"


def right(text: str) -> Right:
    """Return the right with this name, such as `TOPIC READ`."""
    kind, _, operation = text.partition(" ")
    return Right(getattr(Operation, operation), getattr(ResourceType, kind))
