import pytest
from confluent_kafka import ConsumerGroupState

from penstock.cli.errors import CommandError
from penstock.actions.groups import Group, Member, demand, lag_rows, named, total

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
    assert total(rows) == 4


def test_a_partition_that_does_not_answer_has_no_lag() -> None:
    (row,) = lag_rows(GROUP._replace(members=()), {("gone", 0): 5}, {("gone", 0): None})
    assert (row["end"], row["lag"]) == (None, None)


def test_a_log_that_ends_before_the_commit_has_no_negative_lag() -> None:
    (row,) = lag_rows(GROUP._replace(members=()), {("cut", 0): 50}, {("cut", 0): 10})
    assert row["lag"] == 0


def test_a_group_that_is_not_there_is_named() -> None:
    with pytest.raises(CommandError, match="no group nope: 'penstock group list'"):
        demand([GROUP, GROUP._replace(name="nope", state="dead")])


@pytest.mark.parametrize(
    "text", ["PreparingRebalance", "preparing rebalancing", "PREPARING_REBALANCING", "preparing-rebalance"]
)
def test_a_state_is_known_by_kafkas_name_and_by_ours(text: str) -> None:
    assert named(ConsumerGroupState, text, "--state") is ConsumerGroupState.PREPARING_REBALANCING


def test_a_state_that_is_none_is_answered_with_those_there_are() -> None:
    with pytest.raises(CommandError, match=r"--state does not know 'busy': choose one of .*stable"):
        named(ConsumerGroupState, "busy", "--state")
