"""Decisions on what a principal may do, with the semantics of Kafka's StandardAuthorizer.

`AclIndex` finds the ACLs that match a resource, a principal and a host; `decide` returns the verdict and its rule. The
order of the rules is in docs/internals/authorization.md. Values in, values out: rights.py keeps the verdicts.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

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


_Entries = dict[tuple[str, str], list[Acl]]
"""The ACLs of one resource pattern, by principal and host."""


class _Patterns:
    """The ACLs of one type of resource."""

    __slots__ = ("_lengths", "lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, _Entries] = {}
        self.prefixed: dict[str, _Entries] = {}
        self._lengths: Counter[int] = Counter()
        self.lengths: tuple[int, ...] = ()
        """The lengths of the prefixes that occur."""

    def add(self, acl: Acl) -> None:
        is_prefix = acl.pattern_type == PatternType.PREFIXED
        patterns = self.prefixed if is_prefix else self.literal
        entries = patterns.get(acl.resource_name)
        if entries is None:
            entries = patterns[acl.resource_name] = {}
            if is_prefix:
                self._count_length(len(acl.resource_name), 1)
        entries.setdefault((acl.principal, canonical_host(acl.host)), []).append(acl)

    def remove(self, acl: Acl) -> None:
        is_prefix = acl.pattern_type == PatternType.PREFIXED
        patterns = self.prefixed if is_prefix else self.literal
        entries, key = patterns[acl.resource_name], (acl.principal, canonical_host(acl.host))
        entries[key].remove(acl)
        if not entries[key]:
            del entries[key]
        if not entries:
            del patterns[acl.resource_name]
            if is_prefix:
                self._count_length(len(acl.resource_name), -1)

    def _count_length(self, length: int, by: int) -> None:
        self._lengths[length] += by
        self.lengths = tuple(sorted(length for length, count in self._lengths.items() if count))

    def matching(self, name: str) -> list[_Entries]:
        """Return the ACLs of every pattern that matches a name."""
        literal, prefixed = self.literal, self.prefixed
        names = (name,) if name == WILDCARD else (name, WILDCARD)
        found = [literal[each] for each in names if each in literal]
        # A list comprehension, because there may be hundreds of lengths.
        found += [prefixed[prefix] for length in self.lengths if (prefix := name[:length]) in prefixed]
        return found


class AclIndex:
    """All ACLs, by resource."""

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self._types: dict[int, _Patterns] = {}
        for acl in acls:
            self.add(acl)

    def add(self, acl: Acl) -> None:
        self._types.setdefault(acl.resource_type, _Patterns()).add(acl)

    def remove(self, acl: Acl) -> None:
        self._types[acl.resource_type].remove(acl)

    def decide(
        self, principal: str, host: str, operation: int, resource_type: int, name: str, *, if_no_acl: bool = False
    ) -> Decision:
        """Decide for a principal that is not a super user; `host` is canonical."""
        patterns = self._types.get(resource_type)
        matching = () if patterns is None else patterns.matching(name)
        if not matching:
            return Decision(if_no_acl, NO_ACL)
        keys = (principal, host), (principal, WILDCARD), (EVERYBODY, host), (EVERYBODY, WILDCARD)
        return _first_rule([acl for entries in matching for key in keys for acl in entries.get(key, ())], operation)

    def decide_any(
        self, principal: str, host: str, operation: int, resource_type: int, *, if_no_acl: bool = False
    ) -> Decision:
        """Decide whether the operation is allowed on at least one resource of the type (KIP-679)."""
        somewhere = self.decide(principal, host, operation, resource_type, "hardcode", if_no_acl=if_no_acl)
        patterns = self._types.get(resource_type)
        if somewhere.is_allowed or patterns is None:
            return somewhere
        keys = (principal, host), (principal, WILDCARD), (EVERYBODY, host), (EVERYBODY, WILDCARD)
        literal, prefixed = (_permissions(each, keys, operation) for each in (patterns.literal, patterns.prefixed))
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


def _first_rule(acls: Iterable[Acl], operation: int) -> Decision:
    """Decide by the ACLs of a principal and a host: any DENY comes before any ALLOW."""
    allowed: Acl | None = None
    for acl in acls:
        if acl.permission == Permission.DENY:
            if acl.operation in (operation, Operation.ALL):
                return Decision(False, acl)
        elif allowed is None and _allows(acl.operation, operation):
            allowed = acl
    return Decision(False, NO_MATCH) if allowed is None else Decision(True, allowed)


def _allows(granted: int, operation: int) -> bool:
    return granted in (operation, Operation.ALL) or granted in IMPLIED_BY.get(operation, ())


def _permissions(
    patterns: dict[str, _Entries], keys: Collection[tuple[str, str]], operation: int
) -> dict[str, dict[int, Acl]]:
    """Return the ACLs that name the operation for one of the keys, by pattern and permission."""
    found: dict[str, dict[int, Acl]] = {}
    for name, entries in patterns.items():
        for key in keys:
            for acl in entries.get(key, ()):
                if acl.operation in (operation, Operation.ALL):
                    found.setdefault(name, {}).setdefault(acl.permission, acl)
    return found
