from uuid import UUID

import pytest

from penstock.controller.directories import ReplicaDirectory, decide_assignment, directories_offline
from penstock.metadata.image import Image
from penstock.metadata.records import LOST_DIRECTORY, BrokerRegistrationChangeRecord
from penstock.model.errors import (
    NotLeaderOrFollower,
    Refusal,
    StaleBrokerEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from penstock.model.ids import NO_NODE, NodeId
from tests.unit.controller.cluster import (
    LEADER_RULES,
    TOPIC_ID,
    apply,
    broker,
    cluster,
    directory,
    node_ids,
    partition,
    with_partition,
)

ALIVE = cluster(broker(1), broker(2), broker(3))
LED = with_partition(ALIVE, leader=1, replicas=(1, 2, 3))


def assigned(image: Image, to: UUID, *, node_id: int = 1) -> Image:
    replica = ReplicaDirectory(TOPIC_ID, 0, to)
    decision = decide_assignment(image, NodeId(node_id), node_id, [replica], LEADER_RULES)
    assert decision.reply == (None,)
    return apply(image, decision.records)


def test_a_damaged_replica_no_longer_leads_and_is_not_eligible() -> None:
    now = partition(assigned(LED, LOST_DIRECTORY))
    assert (now.leader, now.isr) == (2, node_ids(2, 3))
    assert now.directories[0] == LOST_DIRECTORY
    alone = partition(assigned(with_partition(ALIVE, leader=1, replicas=(1, 2), isr=(1,)), LOST_DIRECTORY))
    assert (alone.leader, alone.isr, alone.eligible_leader_replicas, alone.last_known_elr) == (NO_NODE, (), (), ())


def test_a_refilled_replica_is_assigned_to_its_directory_again() -> None:
    after = assigned(assigned(LED, LOST_DIRECTORY), directory(1))
    assert partition(after).directories[0] == directory(1)
    assert partition(after).isr == (2, 3)
    assert assigned(after, directory(1)).offset == after.offset


@pytest.mark.parametrize(
    ("replica", "refusal"),
    [
        (ReplicaDirectory(UUID(int=9), 0, directory(1)), UnknownTopicId),
        (ReplicaDirectory(TOPIC_ID, 3, directory(1)), UnknownTopicOrPartition),
    ],
)
def test_only_existing_replicas_can_be_assigned_to_a_directory(
    replica: ReplicaDirectory, refusal: type[Refusal]
) -> None:
    (outcome,) = decide_assignment(LED, NodeId(1), 1, [replica], LEADER_RULES).reply
    assert type(outcome) is refusal


def test_a_broker_may_assign_only_its_own_replicas() -> None:
    image = with_partition(ALIVE, leader=1, replicas=(1, 2))
    (outcome,) = decide_assignment(
        image, NodeId(3), 3, [ReplicaDirectory(TOPIC_ID, 0, directory(3))], LEADER_RULES
    ).reply
    assert isinstance(outcome, NotLeaderOrFollower)
    with pytest.raises(StaleBrokerEpoch):
        decide_assignment(image, NodeId(1), 2, [], LEADER_RULES)


def test_a_broker_continues_with_its_remaining_directories() -> None:
    records = directories_offline(LED, LED.brokers[NodeId(1)], [directory(1), directory(9)], LEADER_RULES)
    assert partition(apply(LED, records)).isr == (2, 3)
    assert not any(isinstance(record, BrokerRegistrationChangeRecord) for record in records)
    assert directories_offline(LED, LED.brokers[NodeId(1)], [directory(9)], LEADER_RULES) == ()
