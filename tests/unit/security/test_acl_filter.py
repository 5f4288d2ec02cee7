"""Filters and checks of ACLs."""

import pytest

from penstock.model.acl import Acl, PatternType
from penstock.model.errors import InvalidRequest
from penstock.security.acl_filter import AclFilter, check_new
from tests.unit.security.test_authorizer import acl


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        (AclFilter(), True),
        (AclFilter(resource_type=3), False),
        (AclFilter(resource_name="orders"), True),
        (AclFilter(resource_name="ord"), False),
        (AclFilter(resource_name="orders", pattern_type=PatternType.PREFIXED), False),
        (AclFilter(principal="User:bob", host="*", operation=3, permission=3), True),
        (AclFilter(principal="User:eve"), False),
        (AclFilter(host="1.1.1.1"), False),
        (AclFilter(operation=4), False),
        (AclFilter(permission=2), False),
    ],
)
def test_a_filter_matches_the_fields_that_it_has(wanted: AclFilter, matches: bool) -> None:
    assert wanted.matches(acl()) is matches


@pytest.mark.parametrize(
    ("found", "matches"),
    [
        (acl(), True),
        (acl(name="*"), True),
        (acl(name="ord", prefixed=True), True),
        (acl(name="orders-", prefixed=True), False),
        (acl(name="other"), False),
    ],
)
def test_match_finds_every_acl_that_affects_a_resource(found: Acl, matches: bool) -> None:
    assert AclFilter(resource_name="orders", pattern_type=PatternType.MATCH).matches(found) is matches


def test_a_filter_without_gaps_can_match_only_one_acl() -> None:
    rule = acl()
    assert AclFilter(*rule).only == rule
    for field, value in (("resource_name", None), ("pattern_type", 2), ("operation", 1), ("resource_type", 1)):
        assert AclFilter(*rule)._replace(**{field: value}).only is None  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [{"resource_type": 99}, {"pattern_type": 9}, {"operation": 16}, {"permission": 4}])
def test_numbers_that_do_not_exist_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(InvalidRequest):
        AclFilter()._replace(**bad).check()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "bad",
    [
        {"resource_type": 1},
        {"resource_type": 99},
        {"resource_type": 4},
        {"resource_name": ""},
        {"pattern_type": 1},
        {"pattern_type": 2},
        {"operation": 1},
        {"operation": 77},
        {"permission": 1},
        {"principal": ""},
        {"principal": "bob"},
        {"principal": "User:"},
        {"principal": ":bob"},
        {"host": ""},
    ],
)
def test_an_acl_that_cannot_apply_is_refused(bad: dict[str, object]) -> None:
    check_new(acl())
    with pytest.raises(InvalidRequest):
        check_new(acl()._replace(**bad))  # type: ignore[arg-type]
