"""The rights of principals while ACLs change."""

from typing import Any

from penstock.model.acl import CLUSTER_NAME, Operation, ResourceType
from penstock.security.authorizer import NOT_LOADED, SUPER_USER
from penstock.security.principal import user
from penstock.security.rights import CACHED_MAX, KEY_SIZE_MAX, Authorizer
from tests.unit.security.test_authorizer import acl

HOST = "10.0.0.1"
READ_ORDERS = Operation.READ, ResourceType.TOPIC, "orders"


class Watched:
    """An authorizer with one client, and what it reports."""

    def __init__(self, *, is_loaded: bool = True, **options: Any) -> None:
        self.events: list[tuple[int, str, bool]] = []
        self.authorizer = Authorizer(on_decision=self._note, **options)
        if is_loaded:
            self.authorizer.load([])
        self.bob = self.authorizer.rights(user("bob"), HOST)

    def _note(self, rights: Any, operation: int, kind: int, name: str, decision: Any, api_key: int) -> None:
        self.events.append((operation, name, decision.is_allowed))


def test_until_the_metadata_is_loaded_only_super_users_are_allowed() -> None:
    world = Watched(is_loaded=False, super_users={user("admin")}, if_no_acl=True)
    admin = world.authorizer.rights(user("admin"), HOST)
    assert admin.allows(*READ_ORDERS) and admin.decide(*READ_ORDERS).rule == SUPER_USER
    assert not world.bob.allows(*READ_ORDERS) and world.bob.decide(*READ_ORDERS).rule == NOT_LOADED
    assert not world.bob.allows_any(Operation.WRITE, ResourceType.TOPIC)
    world.authorizer.load([])
    assert world.bob.allows(*READ_ORDERS)


def test_every_change_applies_to_the_next_decision() -> None:
    world = Watched()
    allow, deny = acl(), acl(denies=True)
    assert not world.bob.allows(*READ_ORDERS)
    world.authorizer.change(removed=[], added=[allow])
    assert world.bob.allows(*READ_ORDERS)
    world.authorizer.change(removed=[], added=[deny])
    assert not world.bob.allows(*READ_ORDERS)
    world.authorizer.change(removed=[deny], added=[])
    assert world.bob.allows(*READ_ORDERS)
    world.authorizer.change(removed=[allow], added=[])
    assert not world.bob.allows(*READ_ORDERS)


def test_the_caches_of_the_hot_path_hold_what_is_allowed_until_a_change() -> None:
    world = Watched()
    bob = world.bob
    rule = acl(Operation.ALL)
    world.authorizer.change(removed=[], added=[rule])
    assert bob.may_write(b"orders", "orders", by_id=False) and bob.may_read(b"i" * 16, "orders", by_id=True)
    assert (bob.writable_names, bob.readable_ids) == ({b"orders"}, {b"i" * 16})
    assert not bob.may_read(b"other", "other", by_id=False) and not bob.readable_names
    bob.remember_commit((9, b"commit"))
    world.authorizer.change(removed=[rule], added=[])
    assert not (bob.writable_names or bob.readable_ids or bob.commits)


def test_connections_of_a_principal_from_one_address_share_their_rights() -> None:
    world = Watched()
    assert world.authorizer.rights(user("bob"), "::ffff:10.0.0.1") is world.bob
    assert world.authorizer.rights(user("bob"), "10.0.0.2") is not world.bob


def test_every_denial_is_reported_but_not_the_filtering_of_lists() -> None:
    world = Watched()
    for _ in range(2):
        assert not world.bob.may_write(b"orders", "orders", by_id=False)
    world.bob.allows(*READ_ORDERS, is_asked=False)
    world.bob.operations(ResourceType.CLUSTER, CLUSTER_NAME)
    assert world.events == [(Operation.WRITE, "orders", False)] * 2


def test_allowed_requests_are_reported_if_wanted_and_then_not_cached() -> None:
    world = Watched(reports_allowed=True)
    world.authorizer.change(removed=[], added=[acl()])
    for _ in range(2):
        assert world.bob.may_read(b"orders", "orders", by_id=False)
    assert world.events == [(Operation.READ, "orders", True)] * 2 and not world.bob.readable_names


def test_audit_allows_and_reports_what_would_be_denied() -> None:
    world = Watched(is_audit=True)
    for _ in range(2):
        assert world.bob.may_read(b"orders", "orders", by_id=False)
    assert world.events == [(Operation.READ, "orders", False)] * 2 and not world.bob.readable_names
    assert not world.bob.decide(*READ_ORDERS).is_allowed


def test_authorized_operations_are_bits() -> None:
    world = Watched()
    world.authorizer.change(removed=[], added=[acl(Operation.WRITE)])
    assert world.bob.operations(ResourceType.TOPIC, "orders") == 1 << Operation.WRITE | 1 << Operation.DESCRIBE


def test_the_caches_are_bounded() -> None:
    world = Watched()
    world.authorizer.change(removed=[], added=[acl(Operation.ALL, "*")])
    for number in range(CACHED_MAX + 10):
        world.bob.may_read(b"%d" % number, str(number), by_id=False)
        world.bob.remember_commit((1, b"%d" % number))
    assert len(world.bob.readable_names) <= CACHED_MAX and len(world.bob.commits) <= CACHED_MAX
    assert world.bob.allows(*READ_ORDERS)


def test_verdicts_on_long_names_are_not_kept() -> None:
    world = Watched(if_no_acl=True)
    long = "x" * (KEY_SIZE_MAX + 1)
    assert world.bob.may_read(long.encode(), long, by_id=False)
    assert world.bob.may_write(long.encode(), long, by_id=False)
    assert world.bob.allows(Operation.READ, ResourceType.GROUP, long)
    world.bob.remember_commit((8, long.encode()))
    assert not world.bob.readable_names and not world.bob.writable_names and not world.bob.commits
    assert not world.bob._decisions
