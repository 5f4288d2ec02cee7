from dataclasses import replace

import pytest

from penstock.controller.leaders import Rules
from penstock.controller.reassignments import Reassignment, decide_reassignments
from penstock.metadata.image import Image
from penstock.metadata.records import ConfigRecord
from penstock.model.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    NoReassignmentInProgress,
    Refusal,
    UnknownTopicOrPartition,
)
from penstock.model.ids import NO_NODE, TopicName
from tests.unit.controller.cluster import (
    LEADER_RULES,
    apply,
    broker,
    cluster,
    directory,
    node_ids,
    partition,
    with_partition,
)

ALIVE = cluster(*(broker(node_id) for node_id in range(1, 7)))
IMAGE = with_partition(ALIVE, leader=1, replicas=(1, 2, 3))


def to(*replicas: int) -> Reassignment:
    return Reassignment(TopicName("t"), 0, node_ids(*replicas))


CANCEL = Reassignment(TopicName("t"), 0, None)
UNCLEAN = "unclean.leader.election.enable"


def moved(image: Image, *reassignments: Reassignment, rules: Rules = LEADER_RULES) -> Image:
    decision = decide_reassignments(image, reassignments, rules=rules)
    assert set(decision.reply) == {None}
    return apply(image, decision.records)


def refused(image: Image, reassignment: Reassignment, *, allow_factor_change: bool = True) -> Refusal | None:
    decision = decide_reassignments(image, [reassignment], rules=LEADER_RULES, allow_factor_change=allow_factor_change)
    assert not decision.records
    return decision.reply[0]


def test_new_replicas_are_added_before_the_old_ones_leave() -> None:
    now = partition(moved(IMAGE, to(4, 5, 1)))
    assert (now.replicas, now.adding_replicas, now.removing_replicas) == ((4, 5, 1, 2, 3), (4, 5), (2, 3))
    assert now.directories == tuple(directory(node_id) for node_id in (4, 5, 1, 2, 3))
    assert (now.isr, now.leader, now.leader_epoch) == ((1, 2, 3), 1, 0)


def test_another_order_of_the_same_replicas_completes_immediately() -> None:
    now = partition(moved(IMAGE, to(3, 2, 1)))
    assert (now.replicas, now.adding_replicas, now.removing_replicas, now.leader) == ((3, 2, 1), (), (), 1)
    assert now.directories == (directory(3), directory(2), directory(1))


def test_fewer_replicas_complete_immediately_if_the_remaining_ones_are_in_sync() -> None:
    now = partition(moved(IMAGE, to(2, 3)))
    assert (now.replicas, now.isr, now.leader, now.leader_epoch) == ((2, 3), (2, 3), 2, 1)
    behind = with_partition(ALIVE, leader=1, replicas=(1, 2, 3), isr=(1, 2))
    assert partition(moved(behind, to(2, 3))).removing_replicas == (1,)


def test_a_second_reassignment_replaces_the_first() -> None:
    now = partition(moved(moved(IMAGE, to(4, 5, 6)), to(4, 1, 2)))
    assert (now.replicas, now.adding_replicas, now.removing_replicas) == ((4, 1, 2, 3, 5, 6), (4,), (3, 5, 6))


def test_a_reassignment_to_the_original_replicas_ends_it() -> None:
    now = partition(moved(moved(IMAGE, to(4, 2, 3)), to(1, 2, 3)))
    assert (now.replicas, now.adding_replicas, now.removing_replicas) == ((1, 2, 3), (), ())


def test_cancelling_reverts() -> None:
    now = partition(moved(moved(IMAGE, to(4, 5, 6)), CANCEL))
    assert (now.replicas, now.isr, now.adding_replicas, now.removing_replicas) == ((1, 2, 3), (1, 2, 3), (), ())


def test_cancelling_is_refused_if_too_few_original_replicas_are_in_sync() -> None:
    image = with_partition(
        ALIVE, leader=3, replicas=(4, 5, 6, 1, 2, 3), isr=(3, 4, 5), adding=(4, 5, 6), removing=(1, 2, 3)
    )
    assert isinstance(refused(image, CANCEL), InvalidReplicaAssignment)
    assert isinstance(refused(IMAGE, CANCEL), NoReassignmentInProgress)


@pytest.mark.parametrize(
    ("leader", "isr", "elr", "last_known"),
    [
        (NO_NODE, (), (4,), (4,)),
        (NO_NODE, (), (), (4,)),
        (1, (1,), (4,), ()),
        (4, (4,), (1, 2), ()),
    ],
)
def test_cancelling_is_refused_if_it_would_delete_the_only_replicas_with_all_committed_records(
    leader: int, isr: tuple[int, ...], elr: tuple[int, ...], last_known: tuple[int, ...]
) -> None:
    image = with_partition(
        ALIVE, leader=leader, replicas=(4, 1, 2, 3), isr=isr, elr=elr, last_known=last_known, adding=(4,), removing=(3,)
    )
    assert isinstance(refused(image, CANCEL), InvalidReplicaAssignment)
    unclean = apply(image, [ConfigRecord(resource_type=2, resource_name="t", name=UNCLEAN, value="true")])
    now = partition(moved(unclean, CANCEL))
    assert (now.replicas, now.last_known_elr) == (node_ids(1, 2, 3), ())


def test_cancelling_counts_eligible_replicas_that_have_all_committed_records() -> None:
    image = with_partition(
        ALIVE, leader=NO_NODE, replicas=(4, 1, 2, 3), isr=(), elr=(1, 2), last_known=(1,), adding=(4,), removing=(3,)
    )
    now = partition(moved(image, CANCEL))
    assert (now.replicas, now.leader, now.isr, now.eligible_leader_replicas) == (node_ids(1, 2, 3), 1, (1,), (2,))


@pytest.mark.parametrize("replicas", [(), (9,), (1, 1)])
def test_a_target_must_consist_of_distinct_registered_brokers(replicas: tuple[int, ...]) -> None:
    assert isinstance(refused(IMAGE, to(*replicas)), InvalidReplicaAssignment)


def test_the_factor_changes_only_if_that_is_allowed() -> None:
    assert isinstance(refused(IMAGE, to(1, 2), allow_factor_change=False), InvalidReplicationFactor)
    moving = moved(IMAGE, to(4, 5, 6))
    assert isinstance(refused(moving, to(1, 2), allow_factor_change=False), InvalidReplicationFactor)


def test_an_unknown_partition_cannot_be_reassigned() -> None:
    assert isinstance(refused(IMAGE, replace(to(1), topic=TopicName("u"))), UnknownTopicOrPartition)
    assert isinstance(refused(IMAGE, replace(to(1), partition=1)), UnknownTopicOrPartition)


def test_a_partition_is_reassigned_once_in_a_request() -> None:
    decision = decide_reassignments(IMAGE, [to(4, 2, 3), to(5, 2, 3)], rules=LEADER_RULES)
    assert decision.reply[0] is None
    assert isinstance(decision.reply[1], InvalidReplicaAssignment)
    assert partition(apply(IMAGE, decision.records)).adding_replicas == (4,)
