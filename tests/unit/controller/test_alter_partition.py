from dataclasses import replace

import pytest

from penstock.controller.alter_partition import IsrChange, IsrMember, decide_alter_partition
from penstock.metadata.image import RECOVERED, RECOVERING, Image, PartitionImage
from penstock.metadata.records import LOST_DIRECTORY, PartitionChangeRecord
from penstock.model.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    NewLeaderElected,
    NotController,
    Refusal,
    StaleBrokerEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from penstock.model.ids import NodeId
from tests.unit.controller.cluster import (
    LEADER_RULES,
    TOPIC_ID,
    apply,
    broker,
    cluster,
    directory,
    partition,
    with_partition,
)

ALIVE = cluster(broker(1), broker(2), broker(3), broker(4))
IMAGE = with_partition(ALIVE, leader=1, replicas=(1, 2, 3), isr=(1, 2))


def members(*node_ids: int) -> tuple[IsrMember, ...]:
    return tuple(IsrMember(NodeId(node_id), node_id) for node_id in node_ids)


def isr_change(*isr: int) -> IsrChange:
    return IsrChange(topic_id=TOPIC_ID, partition=0, leader_epoch=0, partition_epoch=0, isr=members(*isr))


def outcome(image: Image, requested: IsrChange, *, leader: int = 1) -> PartitionImage | Refusal:
    return decide_alter_partition(image, NodeId(leader), leader, [requested], LEADER_RULES).reply[0]


def test_the_leader_receives_the_new_state_of_the_partition() -> None:
    decision = decide_alter_partition(IMAGE, NodeId(1), 1, [isr_change(1, 2, 3)], LEADER_RULES)
    now = decision.reply[0]
    assert isinstance(now, PartitionImage)
    assert now == partition(apply(IMAGE, decision.records))
    assert (now.isr, now.leader, now.leader_epoch, now.partition_epoch) == ((1, 2, 3), 1, 0, 1)


def test_a_request_without_a_change_writes_nothing() -> None:
    decision = decide_alter_partition(IMAGE, NodeId(1), 1, [isr_change(1, 2)], LEADER_RULES)
    assert not decision.records
    assert decision.reply == (partition(IMAGE),)


def test_a_request_with_a_stale_broker_epoch_is_refused() -> None:
    with pytest.raises(StaleBrokerEpoch):
        decide_alter_partition(IMAGE, NodeId(1), 0, [isr_change(1)], LEADER_RULES)


@pytest.mark.parametrize(
    ("requested", "refusal"),
    [
        (replace(isr_change(1), topic_id=directory(1)), UnknownTopicId),
        (replace(isr_change(1), partition=1), UnknownTopicOrPartition),
        (replace(isr_change(1), partition=-1), UnknownTopicOrPartition),
        (replace(isr_change(1), leader_epoch=1), NotController),
        (replace(isr_change(1), partition_epoch=1), NotController),
        (replace(isr_change(1), leader_epoch=-1), FencedLeaderEpoch),
        (replace(isr_change(1), partition_epoch=-1), InvalidUpdateVersion),
        (isr_change(), InvalidRequest),
        (isr_change(2), InvalidRequest),
        (isr_change(1, 1), InvalidRequest),
        (isr_change(1, 4), InvalidRequest),
        (replace(isr_change(1), leader_recovery_state=RECOVERING), InvalidRequest),
        (replace(isr_change(1), isr=(*members(1), IsrMember(NodeId(3), 2))), IneligibleReplica),
    ],
)
def test_invalid_changes_are_refused(requested: IsrChange, refusal: type[Refusal]) -> None:
    assert type(outcome(IMAGE, requested)) is refusal


def test_only_the_leader_may_change_the_isr() -> None:
    assert isinstance(outcome(IMAGE, isr_change(1, 2), leader=2), InvalidRequest)


def test_an_unknown_broker_epoch_is_not_checked() -> None:
    requested = replace(isr_change(1), isr=(IsrMember(NodeId(1)), IsrMember(NodeId(3))))
    assert isinstance(outcome(IMAGE, requested), PartitionImage)


@pytest.mark.parametrize("third", [broker(3, fenced=True), broker(3, leaving=True), None])
def test_a_broker_that_cannot_serve_cannot_join_the_isr(third: object) -> None:
    brokers = [broker(1), broker(2), *([third] if third is not None else [])]
    image = with_partition(cluster(*brokers), leader=1, replicas=(1, 2, 3), isr=(1, 2))  # type: ignore[arg-type]
    assert isinstance(outcome(image, isr_change(1, 2, 3)), IneligibleReplica)


def test_a_lost_replica_cannot_join_the_isr_until_it_is_assigned_again() -> None:
    lost = PartitionChangeRecord(
        partition_id=0, topic_id=TOPIC_ID, directories=(directory(1), directory(2), LOST_DIRECTORY)
    )
    image = apply(IMAGE, [lost])
    assert isinstance(outcome(image, replace(isr_change(1, 2, 3), partition_epoch=1)), IneligibleReplica)
    assert isinstance(outcome(image, replace(isr_change(1), partition_epoch=1)), PartitionImage)


def test_a_recovering_leader_is_alone_until_it_reports_its_recovery() -> None:
    image = with_partition(ALIVE, leader=1, replicas=(1, 2, 3), isr=(1,), recovery_state=RECOVERING)
    recovering = replace(isr_change(1, 2), leader_recovery_state=RECOVERING)
    assert isinstance(outcome(image, recovering), InvalidRequest)
    now = outcome(image, isr_change(1, 2))
    assert isinstance(now, PartitionImage)
    # Replica 3 may have committed records that the leader lacks, and must be allowed to remove them.
    assert (now.isr, now.leader_recovery_state) == ((1, 2), RECOVERING)
    all_joined = outcome(image, isr_change(1, 2, 3))
    assert isinstance(all_joined, PartitionImage)
    assert (all_joined.isr, all_joined.leader_recovery_state) == ((1, 2, 3), RECOVERED)


def test_the_last_added_replica_may_complete_a_reassignment_and_replace_the_leader() -> None:
    image = with_partition(ALIVE, leader=1, replicas=(2, 3, 4, 1), isr=(1, 2, 3), adding=(4,), removing=(1,))
    decision = decide_alter_partition(image, NodeId(1), 1, [isr_change(1, 2, 3, 4)], LEADER_RULES)
    assert isinstance(decision.reply[0], NewLeaderElected)
    now = partition(apply(image, decision.records))
    assert (now.replicas, now.isr, now.leader, now.leader_epoch) == ((2, 3, 4), (2, 3, 4), 2, 1)


def test_a_partition_is_altered_once_in_a_request() -> None:
    decision = decide_alter_partition(IMAGE, NodeId(1), 1, [isr_change(1), isr_change(1, 2, 3)], LEADER_RULES)
    assert len(decision.records) == 1
    assert isinstance(decision.reply[1], InvalidRequest)


def test_a_read_only_replica_does_not_join_the_isr() -> None:
    brokers = cluster(broker(1), broker(2), broker(3, read_only=True))
    image = with_partition(brokers, leader=1, replicas=(1, 2, 3), isr=(1, 2))
    assert isinstance(outcome(image, isr_change(1, 2, 3)), IneligibleReplica)


def test_a_read_only_leader_is_replaced_by_the_first_replica_that_joins_it() -> None:
    brokers = cluster(broker(1, read_only=True), broker(2), broker(3))
    image = with_partition(brokers, leader=1, replicas=(1, 2, 3), isr=(1,))
    decision = decide_alter_partition(image, NodeId(1), 1, [isr_change(1, 2)], LEADER_RULES)
    assert isinstance(decision.reply[0], NewLeaderElected)
    after = partition(apply(image, decision.records))
    assert (after.leader, after.isr, after.eligible_leader_replicas) == (2, (2,), (1,))
    # The replica joins the ISR in one record and becomes leader in the next.
    assert partition(apply(image, decision.records[:1])).isr == (1, 2)
