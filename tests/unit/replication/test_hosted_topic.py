"""Which logs a starting node may open after it begins to serve."""

import pytest

from penstock.metadata.image import PartitionImage
from penstock.model.ids import NO_NODE, LeaderEpoch, NodeId, TopicName
from penstock.replication.hosted_topic import may_open_late

OWN, OTHER = NodeId(1), NodeId(2)


def state(leader: NodeId, isr: tuple[NodeId, ...], *, eligible: tuple[NodeId, ...] = ()) -> PartitionImage:
    return PartitionImage(
        leader=leader, leader_epoch=LeaderEpoch(0), replicas=(OWN, OTHER), isr=isr, eligible_leader_replicas=eligible
    )


@pytest.mark.parametrize(
    ("found", "may"),
    [
        (state(OTHER, (OTHER,)), True),
        (state(OTHER, (OTHER, OWN)), False),
        (state(OWN, (OWN,)), False),
        (state(NO_NODE, ()), False),
        (state(OTHER, (OTHER,), eligible=(OWN,)), False),
    ],
)
def test_a_log_waits_only_if_its_replica_cannot_be_elected(found: PartitionImage, may: bool) -> None:
    assert may_open_late(TopicName("orders"), found, OWN) is may
    assert not may_open_late(TopicName("__consumer_offsets"), found, OWN)
