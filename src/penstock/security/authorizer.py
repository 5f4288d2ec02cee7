"""Decisions on what a principal may do, with the semantics of Kafka's StandardAuthorizer.

`AclIndex` finds the ACLs that match a resource, a principal and a host; `decide` returns the verdict and its rule. The
order of the rules is in docs/internals/authorization.md. Values in, values out: rights.py keeps the verdicts.
"""

from bisect import bisect_right
from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from typing import Final, Generic, NamedTuple, TypeVar

from penstock.model.acl import EVERYBODY, WILDCARD, Acl, Operation, PatternType, Permission

_DESCRIBING: Final = frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER})
IMPLIED_BY: Final = {
    Operation.DESCRIBE: _DESCRIBING,
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""The operations whose ALLOW also allows another one. A DENY implies nothing."""

SUPER_USER: Final = "super user"
NOT_LOADED: Final = "the metadata is not loaded yet"
NO_ACL: Final = "no ACL for the resource"
NO_MATCH: Final = "no ACL matches"
AUDIT_TOPIC: Final = "only super users may change the audit topic"


class Decision(NamedTuple):
    is_allowed: bool
    rule: "Acl | str"
    """The ACL that decided, or one of the texts above."""


def canonical_host(host: str) -> str:
    """Return an address in one form, whichever way it is written; other text as it is."""
    if host == WILDCARD:
        return host
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def _bits(operation: int, permission: int) -> int:
    """Return the operations that an ACL denies or allows, as bits."""
    if operation == Operation.ALL:
        return -1
    implied = () if permission == Permission.DENY else (each for each in IMPLIED_BY if operation in IMPLIED_BY[each])
    return sum((1 << each for each in implied), 1 << operation)


_BITS: Final = {
    (operation, permission): _bits(operation, permission)
    for operation in range(1, 128)
    for permission in (Permission.DENY, Permission.ALLOW)
}


class _Rules:
    """The ACLs of one resource pattern for one principal and host."""

    __slots__ = ("_acls", "allowed", "denied")

    def __init__(self) -> None:
        self._acls: list[Acl] = []
        self.denied = self.allowed = 0
        """The operations that an ACL denies or allows, as bits."""

    def __bool__(self) -> bool:
        return bool(self._acls)

    def add(self, acl: Acl) -> None:
        self._acls.append(acl)
        self._combine()

    def remove(self, acl: Acl) -> None:
        self._acls.remove(acl)
        self._combine()

    def _combine(self) -> None:
        self.denied = self.allowed = 0
        for acl in self._acls:
            if acl.permission == Permission.DENY:
                self.denied |= _BITS[acl.operation, Permission.DENY]
            else:
                self.allowed |= _BITS[acl.operation, Permission.ALLOW]

    def rule(self, permission: int, operation: int) -> Acl:
        """Return the ACL that denies or allows an operation."""
        return next(
            acl
            for acl in self._acls
            if acl.permission == permission and _BITS[acl.operation, permission] >> operation & 1
        )

    def naming(self, operation: int) -> Iterable[Acl]:
        """Return the ACLs that name an operation, or all operations."""
        return (acl for acl in self._acls if acl.operation in (operation, Operation.ALL))


_T = TypeVar("_T")


class _Patterns(Generic[_T]):
    """Values by resource pattern."""

    __slots__ = ("_counts", "_lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, _T] = {}
        self.prefixed: dict[str, _T] = {}
        self._counts: dict[int, int] = {}
        self._lengths: tuple[int, ...] = ()
        """The lengths of the prefixes that occur."""

    def get(self, acl: Acl) -> _T | None:
        return self._of(acl).get(acl.resource_name)

    def put(self, acl: Acl, value: _T) -> None:
        if acl.resource_name not in self._of(acl):
            self._count(acl, 1)
        self._of(acl)[acl.resource_name] = value

    def drop(self, acl: Acl) -> None:
        del self._of(acl)[acl.resource_name]
        self._count(acl, -1)

    def _of(self, acl: Acl) -> dict[str, _T]:
        return self.prefixed if acl.pattern_type == PatternType.PREFIXED else self.literal

    def _count(self, acl: Acl, by: int) -> None:
        if acl.pattern_type == PatternType.PREFIXED:
            length = len(acl.resource_name)
            self._counts[length] = self._counts.get(length, 0) + by
            if self._counts[length] == (by > 0):
                self._lengths = tuple(sorted(each for each, count in self._counts.items() if count))

    def matching(self, name: str) -> list[_T]:
        """Return the values of every pattern that matches a name."""
        literal, prefixed = self.literal, self.prefixed
        names = (name,) if name == WILDCARD else (name, WILDCARD)
        found = [literal[each] for each in names if each in literal]
        if prefixed:
            lengths = self._lengths
            if lengths[-1] > len(name):
                lengths = lengths[: bisect_right(lengths, len(name))]
            # A list comprehension, because there may be hundreds of lengths.
            found += [prefixed[prefix] for length in lengths if (prefix := name[:length]) in prefixed]
        return found


class _Resources:
    """The ACLs of one type of resource.

    They are found by principal and host first: a decision costs as much as the patterns of that principal, and as
    those of everybody, that match.
    """

    __slots__ = ("counts", "holders")

    def __init__(self) -> None:
        self.counts: _Patterns[int] = _Patterns()
        """How many ACLs each pattern has, of any principal."""
        self.holders: dict[tuple[str, str], _Patterns[_Rules]] = {}

    def add(self, acl: Acl) -> None:
        held = self.holders.setdefault((acl.principal, canonical_host(acl.host)), _Patterns())
        rules = held.get(acl)
        if rules is None:
            rules = _Rules()
            held.put(acl, rules)
        rules.add(acl)
        self.counts.put(acl, (self.counts.get(acl) or 0) + 1)

    def remove(self, acl: Acl) -> None:
        key = acl.principal, canonical_host(acl.host)
        held, count = self.holders[key], self.counts.get(acl)
        rules = held.get(acl)
        assert rules is not None and count is not None, "an ACL is removed once"
        rules.remove(acl)
        if not rules:
            held.drop(acl)
        if not held.literal and not held.prefixed:
            del self.holders[key]
        if count > 1:
            self.counts.put(acl, count - 1)
        else:
            self.counts.drop(acl)

    def held_by(self, principal: str, host: str) -> list[_Patterns[_Rules]]:
        """Return the ACLs of a principal and a host, and those that include them."""
        holders = self.holders
        keys = (principal, host), (principal, WILDCARD), (EVERYBODY, host), (EVERYBODY, WILDCARD)
        return [holders[key] for key in keys if key in holders]


class AclIndex:
    """All ACLs, by type of resource."""

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self._types: dict[int, _Resources] = {}
        for acl in acls:
            self.add(acl)

    def add(self, acl: Acl) -> None:
        self._types.setdefault(acl.resource_type, _Resources()).add(acl)

    def remove(self, acl: Acl) -> None:
        self._types[acl.resource_type].remove(acl)

    def decide(
        self, principal: str, host: str, operation: int, resource_type: int, name: str, *, if_no_acl: bool = False
    ) -> Decision:
        """Decide for a principal that is not a super user: any DENY comes before any ALLOW. `host` is canonical."""
        resources = self._types.get(resource_type)
        if resources is None:
            return Decision(if_no_acl, NO_ACL)
        bit = 1 << operation
        allowing: _Rules | None = None
        for held in resources.held_by(principal, host):
            for rules in held.matching(name):
                if rules.denied & bit:
                    return Decision(False, rules.rule(Permission.DENY, operation))
                if allowing is None and rules.allowed & bit:
                    allowing = rules
        if allowing is not None:
            return Decision(True, allowing.rule(Permission.ALLOW, operation))
        return Decision(False, NO_MATCH) if resources.counts.matching(name) else Decision(if_no_acl, NO_ACL)

    def decide_any(
        self, principal: str, host: str, operation: int, resource_type: int, *, if_no_acl: bool = False
    ) -> Decision:
        """Decide whether the operation is allowed on at least one resource of the type (KIP-679)."""
        somewhere = self.decide(principal, host, operation, resource_type, "hardcode", if_no_acl=if_no_acl)
        resources = self._types.get(resource_type)
        if somewhere.is_allowed or resources is None:
            return somewhere
        held = resources.held_by(principal, host)
        literal = _permissions([each.literal for each in held], operation)
        prefixed = _permissions([each.prefixed for each in held], operation)
        wild = literal.pop(WILDCARD, {})
        if Permission.DENY in wild:
            return Decision(False, wild[Permission.DENY])
        if Permission.ALLOW in wild:
            return Decision(True, wild[Permission.ALLOW])
        denied_prefixes = {name for name, found in prefixed.items() if Permission.DENY in found}
        for names in (literal, prefixed):
            for name, found in names.items():
                is_denied = Permission.DENY in found or any(
                    name[:length] in denied_prefixes for length in range(1, len(name) + 1)
                )
                if Permission.ALLOW in found and not is_denied:
                    return Decision(True, found[Permission.ALLOW])
        return Decision(False, NO_MATCH)


def _permissions(held: Iterable[dict[str, _Rules]], operation: int) -> dict[str, dict[int, Acl]]:
    """Return the ACLs that name the operation, by pattern and permission."""
    found: dict[str, dict[int, Acl]] = {}
    for patterns in held:
        for name, rules in patterns.items():
            for acl in rules.naming(operation):
                found.setdefault(name, {}).setdefault(acl.permission, acl)
    return found
