from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState

from penstock.actions.errors import ActionError
from penstock.actions.groups import (
    Group,
    Member,
    describe_active_members,
    group_total_row,
    lag_rows,
    member_rows,
    parse_enum,
    require_existing,
    total_lag,
)

MEMBER = Member("member-1", None, "client-1", "10.0.0.1", (("orders", 0), ("orders", 2)))
GROUP = Group("billing", "stable", "classic", "range", "1 (b:9092)", (MEMBER,))


def test_the_lag_of_each_partition_names_its_owner() -> None:
    committed = {("orders", 0): 5, ("orders", 1): 7}
    rows = lag_rows(GROUP, committed, {("orders", 0): 9, ("orders", 1): 7, ("orders", 2): 3})
    shown = [tuple(row[name] for name in ("partition", "committed", "end", "lag", "client_id", "host")) for row in rows]
    assert shown == [
        (0, 5, 9, 4, "client-1", "10.0.0.1"),
        (1, 7, 7, 0, None, None),
        (2, None, 3, None, "client-1", "10.0.0.1"),
    ]
    assert total_lag(rows) == 4


def test_a_partition_that_does_not_answer_has_no_lag() -> None:
    (row,) = lag_rows(GROUP._replace(members=()), {("gone", 0): 5}, {("gone", 0): None})
    assert (row["end"], row["lag"]) == (None, None)


def test_a_log_that_ends_before_the_commit_has_no_negative_lag() -> None:
    (row,) = lag_rows(GROUP._replace(members=()), {("cut", 0): 50}, {("cut", 0): 10})
    assert row["lag"] == 0


def test_a_group_that_does_not_exist_is_named() -> None:
    with pytest.raises(ActionError, match="Group 'nope' does not exist"):
        require_existing([GROUP, GROUP._replace(name="nope", state="dead")])


@pytest.mark.parametrize(
    "text", ["PreparingRebalance", "preparing rebalancing", "PREPARING_REBALANCING", "preparing-rebalance"]
)
def test_a_state_is_parsed_in_each_spelling(text: str) -> None:
    assert parse_enum(ConsumerGroupState, text, "group state") is ConsumerGroupState.PREPARING_REBALANCING


def test_an_invalid_state_is_rejected() -> None:
    with pytest.raises(ActionError, match=r"Invalid group state 'busy': expected one of .*stable"):
        parse_enum(ConsumerGroupState, "busy", "group state")


def test_a_group_has_a_row_per_member_and_one_if_it_is_empty() -> None:
    (row,) = member_rows(GROUP)
    assert (row["member"], row["partitions"]) == ("member-1", ["orders-0", "orders-2"])
    (row,) = member_rows(GROUP._replace(members=()))
    assert (row["group"], row["partitions"]) == ("billing", [])


def test_the_total_of_a_group_counts_only_its_own_rows() -> None:
    rows: list[dict[str, Any]] = [
        {"group": "billing", "lag": 4},
        {"group": "billing", "lag": None},
        {"group": "other", "lag": 9},
    ]
    total = group_total_row(GROUP, rows)
    assert (total["members"], total["partitions"], total["lag"]) == (1, 2, 4)


def test_members_that_prevent_a_reset_are_named() -> None:
    crowd = GROUP._replace(members=(MEMBER,) * 5)
    assert "it has active members (client-1 at 10.0.0.1, client-1" in describe_active_members(crowd)
    assert "and 2 more" in describe_active_members(crowd)
