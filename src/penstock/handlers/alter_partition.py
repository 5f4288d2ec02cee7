"""AlterPartition, versions 2-3: a leader changes the ISR of its partition.

From v3 on each member has the broker epoch of its last fetch, so that a broker that has restarted since is not
added (KIP-903). Goes to controller/alter_partition.py on the active controller. Refuses: NOT_CONTROLLER,
STALE_BROKER_EPOCH; per partition those of that file.
"""

from collections.abc import Iterator
from uuid import UUID

from kio.schema.alter_partition.v3.request import AlterPartitionRequest
from kio.schema.alter_partition.v3.response import AlterPartitionResponse, PartitionData, TopicData

from penstock.controller.alter_partition import IsrChange, IsrMember, decide_alter_partition
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, int8, int32, node, nodes, present
from penstock.metadata.image import PartitionImage
from penstock.model.errors import Refusal
from penstock.model.ids import NO_EPOCH, NO_NODE, NodeId


async def handle(context: Context, request: Request) -> AlterPartitionResponse:
    body: AlterPartitionRequest = request.body
    changes = list(_changes(body))
    try:
        outcomes = await context.controller.run(
            # The rules are read when it is this decision's turn: the one before may change min.insync.replicas.
            lambda image: decide_alter_partition(
                image, NodeId(body.broker_id), body.broker_epoch, changes, context.monitor.rules
            )
        )
    except Refusal as refusal:
        return AlterPartitionResponse(throttle_time=NO_THROTTLE, error_code=failed(refusal), topics=())
    topics: dict[UUID, list[PartitionData]] = {}
    for change, outcome in zip(changes, outcomes, strict=True):
        topics.setdefault(change.topic_id, []).append(_result(change.partition, outcome))
    return AlterPartitionResponse(
        throttle_time=NO_THROTTLE,
        error_code=NO_ERROR,
        topics=tuple(
            TopicData(topic_id=topic_id, partitions=tuple(partitions)) for topic_id, partitions in topics.items()
        ),
    )


def _changes(body: AlterPartitionRequest) -> Iterator[IsrChange]:
    for topic in body.topics:
        for partition in topic.partitions:
            yield IsrChange(
                topic_id=present(topic.topic_id),
                partition=partition.partition_index,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                isr=tuple(
                    IsrMember(NodeId(member.broker_id), member.broker_epoch) for member in partition.new_isr_with_epochs
                ),
                leader_recovery_state=partition.leader_recovery_state,
            )


def _result(index: int, outcome: PartitionImage | Refusal) -> PartitionData:
    if isinstance(outcome, Refusal):
        return PartitionData(
            partition_index=int32(index),
            error_code=failed(outcome),
            leader_id=node(NO_NODE),
            leader_epoch=int32(NO_EPOCH),
            partition_epoch=int32(-1),
        )
    return PartitionData(
        partition_index=int32(index),
        error_code=NO_ERROR,
        leader_id=node(outcome.leader),
        leader_epoch=int32(outcome.leader_epoch),
        isr=nodes(outcome.isr),
        leader_recovery_state=int8(outcome.leader_recovery_state),
        partition_epoch=int32(outcome.partition_epoch),
    )
