"""Limits: which quota applies to a client, which clients share it, and which buckets survive a change of quotas."""

import pytest

from penstock.quotas.entity import (
    CONNECTION_CREATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Entity,
    find_connection_rate,
    find_quota,
)
from penstock.quotas.limits import BUCKETS_KEPT_MIN, Client, Spans, Table

QuotaMap = dict[Entity, dict[str, float]]

BY_PRECEDENCE: list[tuple[Entity, tuple[str | None, str | None]]] = [
    ((("client-id", "c"), ("user", "u")), ("u", "c")),
    ((("client-id", None), ("user", "u")), ("u", "c")),
    ((("user", "u"),), ("u", None)),
    ((("client-id", "c"), ("user", None)), ("u", "c")),
    ((("client-id", None), ("user", None)), ("u", "c")),
    ((("user", None),), ("u", None)),
    ((("client-id", "c"),), (None, "c")),
    ((("client-id", None),), (None, "c")),
]


@pytest.mark.parametrize("first", range(len(BY_PRECEDENCE)))
def test_the_most_specific_entity_wins_and_determines_who_shares_it(first: int) -> None:
    quotas: QuotaMap = {entity: {PRODUCER_BYTE_RATE: float(rate)} for rate, (entity, _) in enumerate(BY_PRECEDENCE)}
    left = dict(list(quotas.items())[first:])
    assert find_quota(left, PRODUCER_BYTE_RATE, "u", "c") == (float(first), BY_PRECEDENCE[first][1])


def test_each_quota_is_resolved_separately() -> None:
    quotas: QuotaMap = {(("user", "u"),): {PRODUCER_BYTE_RATE: 1.0}, (("user", None),): {REQUEST_PERCENTAGE: 2.0}}
    assert find_quota(quotas, REQUEST_PERCENTAGE, "u", "c") == (2.0, ("u", None))
    assert find_quota(quotas, PRODUCER_BYTE_RATE, "someone else", "c") is None


def test_the_quota_of_an_address_overrides_the_default() -> None:
    quotas: QuotaMap = {
        (("ip", "10.0.0.1"),): {CONNECTION_CREATION_RATE: 1.0},
        (("ip", None),): {CONNECTION_CREATION_RATE: 2.0},
    }
    assert (find_connection_rate(quotas, "10.0.0.1"), find_connection_rate(quotas, "10.0.0.2")) == (1.0, 2.0)
    table = Table(quotas, Spans())
    assert table.limits_connections
    bucket = table.connections("10.0.0.1", 0)
    assert bucket is not None and bucket is table.connections("10.0.0.1", 5)
    assert Table({(("ip", "10.0.0.1"),): {CONNECTION_CREATION_RATE: 1.0}}, Spans()).connections("10.0.0.2", 0) is None


def client(table: Table, client_id: str, user: str = "u") -> Client:
    return table.client(user, client_id, lambda api_key, seconds: None, 0)


def test_clients_of_a_user_share_the_users_bucket_and_default_clients_have_their_own() -> None:
    shared = Table({(("user", "u"),): {PRODUCER_BYTE_RATE: 10.0}}, Spans())
    assert client(shared, "a").produce is client(shared, "b").produce
    own = Table({(("client-id", None),): {PRODUCER_BYTE_RATE: 10.0}}, Spans())
    assert client(own, "a").produce is not client(own, "b").produce
    assert client(own, "a", user="u").produce is client(own, "a", user="v").produce


def test_a_change_for_one_client_does_not_forgive_the_debt_of_another() -> None:
    before = Table({(("client-id", "a"),): {PRODUCER_BYTE_RATE: 10.0}}, Spans())
    kept = client(before, "a").produce
    quotas: QuotaMap = {(("client-id", name),): {PRODUCER_BYTE_RATE: rate} for name, rate in (("a", 10.0), ("b", 5.0))}
    assert client(Table(quotas, Spans(), before), "a").produce is kept
    changed = client(Table({(("client-id", "a"),): {PRODUCER_BYTE_RATE: 20.0}}, Spans(), before), "a").produce
    assert changed is not None and changed is not kept and changed.rate == 20


def test_full_buckets_are_dropped_when_there_are_many() -> None:
    table = Table({(("client-id", None),): {PRODUCER_BYTE_RATE: 10.0}}, Spans())
    in_debt = client(table, "in debt").produce
    assert in_debt is not None
    in_debt.take(1000, 0)
    for number in range(BUCKETS_KEPT_MIN + 1):
        client(table, str(number))
    assert len(table._kept) < 10
    assert client(table, "in debt").produce is in_debt
