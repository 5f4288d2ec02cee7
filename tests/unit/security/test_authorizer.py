"""Decisions on ACLs, compared with a search of all of them."""

import sys
from random import Random
from types import FrameType

import pytest

from penstock.model.acl import Acl, Operation, PatternType, Permission, ResourceType
from penstock.security.authorizer import NO_ACL, NO_MATCH, AclIndex, canonical_host
from tests.unit.security.acl_reference import compare

DECISIONS = 20_000


def acl(
    operation: int = Operation.READ,
    name: str = "orders",
    *,
    prefixed: bool = False,
    principal: str = "User:bob",
    host: str = "*",
    denies: bool = False,
    kind: int = ResourceType.TOPIC,
) -> Acl:
    return Acl(
        kind,
        name,
        PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        principal,
        host,
        operation,
        Permission.DENY if denies else Permission.ALLOW,
    )


def allows(acls: list[Acl], operation: int = Operation.READ, name: str = "orders", *, host: str = "1.1.1.1") -> bool:
    return AclIndex(acls).decide("User:bob", host, operation, ResourceType.TOPIC, name).is_allowed


@pytest.mark.parametrize("seed", range(3))
def test_decisions_are_those_of_a_search_of_all_acls(seed: int) -> None:
    assert compare(Random(seed), DECISIONS) >= DECISIONS


def test_a_literal_prefixed_or_wildcard_pattern_matches() -> None:
    assert allows([acl()]) and not allows([acl()], name="orders2")
    assert allows([acl(name="ord", prefixed=True)]) and not allows([acl(name="ord", prefixed=True)], name="or")
    assert allows([acl(name="*")])
    # Only a literal asterisk is a wildcard.
    assert not allows([acl(name="*", prefixed=True)]) and allows([acl(name="*", prefixed=True)], name="*x")


def test_a_deny_comes_before_any_allow_and_implies_nothing() -> None:
    assert not allows([acl(), acl(name="o", prefixed=True, denies=True)])
    assert not allows([acl(), acl(Operation.ALL, name="*", principal="User:*", denies=True)])
    assert allows([acl(Operation.WRITE), acl(Operation.READ, denies=True)], Operation.DESCRIBE)


@pytest.mark.parametrize(
    "granted", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE, Operation.ALL]
)
def test_operations_that_allow_describe(granted: int) -> None:
    assert allows([acl(granted)], Operation.DESCRIBE)


def test_operations_that_do_not_allow_describe() -> None:
    assert not any(allows([acl(granted)], Operation.DESCRIBE) for granted in (5, 9, 10, 11, 12, 13, 14, 15))
    assert allows([acl(Operation.ALTER_CONFIGS)], Operation.DESCRIBE_CONFIGS)
    assert not allows([acl(Operation.ALTER)], Operation.DESCRIBE_CONFIGS)


def test_hosts_are_compared_as_addresses() -> None:
    assert allows([acl(host="1.1.1.1")]) and not allows([acl(host="1.1.1.2")])
    assert canonical_host("::ffff:1.2.3.4") == "1.2.3.4"
    assert canonical_host("0:0:0:0:0:0:0:1") == canonical_host("::1")
    assert allows([acl(host="0:0:0:0:0:0:0:1")], host="::1")
    assert canonical_host("*") == "*"


def test_a_decision_names_its_rule() -> None:
    rule = acl()
    index = AclIndex([rule])
    asked = "User:bob", "1.1.1.1", Operation.READ, ResourceType.TOPIC
    assert index.decide(*asked, "orders").rule is rule
    assert index.decide(*asked, "other").rule == NO_ACL
    assert index.decide("User:eve", *asked[1:], "orders").rule == NO_MATCH


def test_the_default_applies_only_to_resources_without_any_acl() -> None:
    index = AclIndex([acl(principal="User:eve")])
    asked = "User:bob", "1.1.1.1", Operation.READ, ResourceType.TOPIC
    assert not index.decide(*asked, "orders", if_no_acl=True).is_allowed
    assert index.decide(*asked, "other", if_no_acl=True).is_allowed


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([acl(Operation.WRITE)], True),
        ([acl(Operation.WRITE, "*")], True),
        ([acl(Operation.READ)], False),
        ([acl(Operation.WRITE, principal="User:eve")], False),
        ([acl(Operation.WRITE), acl(Operation.WRITE, denies=True)], False),
        ([acl(Operation.WRITE), acl(Operation.WRITE, "ord", prefixed=True, denies=True)], False),
        ([acl(Operation.WRITE, "o", prefixed=True), acl(Operation.WRITE, "ord", prefixed=True, denies=True)], True),
        ([acl(Operation.WRITE), acl(Operation.ALL, "*", denies=True)], False),
        ([acl(Operation.WRITE), acl(Operation.WRITE, "x", denies=True)], True),
    ],
)
def test_an_operation_on_any_resource_of_a_type(acls: list[Acl], expected: bool) -> None:
    decision = AclIndex(acls).decide_any("User:bob", "1.1.1.1", Operation.WRITE, ResourceType.TOPIC)
    assert decision.is_allowed is expected


def test_removing_an_acl_leaves_all_others() -> None:
    deny = acl(denies=True)
    twin = acl(Operation.WRITE)
    index = AclIndex([acl(), deny, twin, acl(name="ord", prefixed=True), acl(name="orx", prefixed=True)])
    index.remove(twin)
    index.remove(acl(name="orx", prefixed=True))
    index.remove(acl(name="ord", prefixed=True))
    asked = "User:bob", "1.1.1.1", Operation.READ, ResourceType.TOPIC, "orders"
    assert index.decide(*asked).rule == deny
    index.remove(deny)
    assert index.decide(*asked).is_allowed
    index.remove(acl())
    assert index.decide(*asked).rule == NO_ACL


def test_a_decision_costs_as_many_lookups_as_the_name_has_prefixes() -> None:
    """ACLs of other principals, and prefixes longer than the name, are not looked at."""
    nested = [acl(name="p" * length, prefixed=True) for length in range(1, 51)]
    others = [acl(name="p" * length, prefixed=True, principal=f"User:{length}") for length in range(1, 200)]
    index = AclIndex([*nested, *others])
    asked = "User:bob", "1.1.1.1", Operation.READ, ResourceType.TOPIC, "p" * 60
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        decision = index.decide(*asked)
    finally:
        sys.setprofile(None)
    assert decision.rule == nested[0]
    assert calls < 20, "a call for each pattern would take 100 microseconds"
