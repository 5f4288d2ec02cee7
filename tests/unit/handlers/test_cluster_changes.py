"""The APIs of the active controller, through the codec there and back."""

from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import UUID

import pytest
from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.alter_partition.v2 import request as alter_partition_v2
from kio.schema.alter_partition.v3 import request as alter_partition_v3
from kio.schema.alter_partition_reassignments.v1 import request as reassign_request
from kio.schema.assign_replicas_to_dirs.v0 import request as assign_request
from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest, Feature, Listener
from kio.schema.controller_registration.v0.request import ControllerRegistrationRequest
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest

from penstock.controller.features import SUPPORTED
from penstock.handlers import (
    allocate_producer_ids,
    alter_partition,
    alter_partition_reassignments,
    assign_replicas_to_dirs,
    broker_heartbeat,
    broker_registration,
    controller_registration,
    elect_leaders,
    list_partition_reassignments,
    unregister_broker,
)
from penstock.handlers.entities import milliseconds
from penstock.metadata.image import PartitionImage
from penstock.metadata.records import LOST_DIRECTORY, MetadataRecord, PartitionRecord, TopicRecord
from penstock.model.ids import NodeId, TopicName
from penstock.wire.api import ApiKey
from tests.unit.controller.cluster import TOPIC_ID, broker, directory, node_ids
from tests.unit.handlers.fakes import FakeNode

WAIT = milliseconds(1000)


@pytest.fixture
async def node() -> AsyncIterator[FakeNode]:
    made = FakeNode(brokers=[broker(1), broker(2), broker(3)])
    made.quorum.put(partition_records((1, 2, 3)))
    made.context.monitor.leadership_changed(True, 1)
    yield made
    made.context.monitor.stop()


def partition_records(replicas: Sequence[int]) -> list[MetadataRecord]:
    return [
        TopicRecord(name="t", topic_id=TOPIC_ID),
        PartitionRecord(
            partition_id=0,
            topic_id=TOPIC_ID,
            replicas=tuple(replicas),
            isr=tuple(replicas),
            leader=replicas[0],
            leader_epoch=0,
            partition_epoch=0,
            directories=tuple(directory(node_id) for node_id in replicas),
        ),
    ]


def partition(node: FakeNode) -> PartitionImage:
    return node.image.topics[TopicName("t")].partitions[0]


def registration(node_id: int, **changes: Any) -> Any:
    fields: dict[str, Any] = {
        "broker_id": node_id,
        "cluster_id": "the-cluster",
        "incarnation_id": UUID(int=77),
        "listeners": (Listener(name="PLAINTEXT", host="h", port=9092, security_protocol=0),),  # type: ignore[arg-type]
        "features": tuple(
            Feature(name=name, min_supported_version=levels.least, max_supported_version=levels.most)  # type: ignore[arg-type]
            for name, levels in SUPPORTED.items()
        ),
        "rack": "r",
        "log_dirs": (directory(node_id),),
    }
    return BrokerRegistrationRequest(**(fields | changes))


def heartbeat(node: FakeNode, node_id: int, **changes: Any) -> Any:
    fields: dict[str, Any] = {
        "broker_id": node_id,
        "broker_epoch": node.image.brokers[NodeId(node_id)].epoch,
        "current_metadata_offset": node.image.offset,
        "want_fence": False,
        "want_shut_down": False,
    }
    return BrokerHeartbeatRequest(**(fields | changes))


async def test_a_broker_registers_and_its_heartbeat_lets_it_serve(node: FakeNode) -> None:
    reply = await node.ask(broker_registration.handle, ApiKey.BROKER_REGISTRATION, registration(4))
    assert reply.error_code == ErrorCode.none
    now = node.image.brokers[NodeId(4)]
    assert (now.epoch, now.fenced, now.rack) == (reply.broker_epoch, True, "r")
    beat = await node.ask(broker_heartbeat.handle, ApiKey.BROKER_HEARTBEAT, heartbeat(node, 4))
    assert (beat.error_code, beat.is_fenced, beat.is_caught_up) == (ErrorCode.none, False, True)
    assert not node.image.brokers[NodeId(4)].fenced


async def test_strangers_and_former_selves_are_refused(node: FakeNode) -> None:
    reply = await node.ask(broker_registration.handle, ApiKey.BROKER_REGISTRATION, registration(4, cluster_id="other"))
    assert (reply.error_code, reply.broker_epoch) == (ErrorCode.inconsistent_cluster_id, -1)
    beat = await node.ask(broker_heartbeat.handle, ApiKey.BROKER_HEARTBEAT, heartbeat(node, 2, broker_epoch=0))
    assert (beat.error_code, beat.is_fenced) == (ErrorCode.stale_broker_epoch, True)


async def test_who_is_not_the_controller_says_so(node: FakeNode) -> None:
    node.quorum.is_active = False
    for handler, key, body in (
        (broker_registration.handle, ApiKey.BROKER_REGISTRATION, registration(4)),
        (broker_heartbeat.handle, ApiKey.BROKER_HEARTBEAT, heartbeat(node, 2)),
        (unregister_broker.handle, ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=2)),  # type: ignore[arg-type]
        (elect_leaders.handle, ApiKey.ELECT_LEADERS, election(0, None)),
    ):
        assert (await node.ask(handler, key, body)).error_code == ErrorCode.not_controller


@pytest.mark.parametrize("version", [2, 3])
async def test_a_leader_changes_its_in_sync_set(node: FakeNode, version: int) -> None:
    body: Any
    if version == 3:
        body = alter_partition_v3.AlterPartitionRequest(
            broker_id=1,  # type: ignore[arg-type]
            broker_epoch=1,  # type: ignore[arg-type]
            topics=(
                alter_partition_v3.TopicData(
                    topic_id=TOPIC_ID,
                    partitions=(
                        alter_partition_v3.PartitionData(
                            partition_index=0,  # type: ignore[arg-type]
                            leader_epoch=0,  # type: ignore[arg-type]
                            partition_epoch=0,  # type: ignore[arg-type]
                            new_isr_with_epochs=tuple(
                                alter_partition_v3.BrokerState(broker_id=each, broker_epoch=each)  # type: ignore[arg-type]
                                for each in (1, 2)
                            ),
                        ),
                    ),
                ),
            ),
        )
    else:
        body = alter_partition_v2.AlterPartitionRequest(
            broker_id=1,  # type: ignore[arg-type]
            broker_epoch=1,  # type: ignore[arg-type]
            topics=(
                alter_partition_v2.TopicData(
                    topic_id=TOPIC_ID,
                    partitions=(
                        alter_partition_v2.PartitionData(
                            partition_index=0,  # type: ignore[arg-type]
                            leader_epoch=0,  # type: ignore[arg-type]
                            partition_epoch=0,  # type: ignore[arg-type]
                            new_isr=(1, 2),  # type: ignore[arg-type]
                        ),
                    ),
                ),
            ),
        )
    reply = await node.ask(alter_partition.handle, ApiKey.ALTER_PARTITION, body, version=version)
    (now,) = reply.topics[0].partitions
    assert (now.error_code, now.leader_id, now.isr, now.partition_epoch) == (ErrorCode.none, 1, (1, 2), 1)
    assert partition(node).isr == (1, 2)
    again = await node.ask(alter_partition.handle, ApiKey.ALTER_PARTITION, body, version=version)
    assert again.topics[0].partitions[0].error_code == ErrorCode.invalid_update_version


def election(kind: int, topics: Any) -> Any:
    return ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout=WAIT)  # type: ignore[arg-type]


async def test_elections_tell_of_each_partition(node: FakeNode) -> None:
    asked = (TopicPartitions(topic="t", partitions=(0, 9)),)  # type: ignore[arg-type]
    reply = await node.ask(elect_leaders.handle, ApiKey.ELECT_LEADERS, election(0, asked))
    (topic,) = reply.replica_election_results
    assert [(each.partition_id, each.error_code) for each in topic.partition_result] == [
        (0, ErrorCode.election_not_needed),
        (9, ErrorCode.unknown_topic_or_partition),
    ]
    everywhere = await node.ask(elect_leaders.handle, ApiKey.ELECT_LEADERS, election(0, None))
    assert everywhere.replica_election_results == ()
    unknown = await node.ask(elect_leaders.handle, ApiKey.ELECT_LEADERS, election(7, None))
    assert unknown.error_code == ErrorCode.invalid_request


def reassignment(replicas: tuple[int, ...] | None, *, allow: bool = True) -> Any:
    return reassign_request.AlterPartitionReassignmentsRequest(
        timeout=WAIT,
        allow_replication_factor_change=allow,
        topics=(
            reassign_request.ReassignableTopic(
                name="t",  # type: ignore[arg-type]
                partitions=(
                    reassign_request.ReassignablePartition(partition_index=0, replicas=replicas),  # type: ignore[arg-type]
                ),
            ),
        ),
    )


async def test_a_move_is_begun_listed_and_cancelled(node: FakeNode) -> None:
    await node.ask(broker_registration.handle, ApiKey.BROKER_REGISTRATION, registration(4))
    key = ApiKey.ALTER_PARTITION_REASSIGNMENTS

    async def moved(body: Any) -> ErrorCode:
        reply = await node.ask(alter_partition_reassignments.handle, key, body)
        assert reply.error_code == ErrorCode.none
        code: ErrorCode = reply.responses[0].partitions[0].error_code
        return code

    assert await moved(reassignment((2, 4))) == ErrorCode.none
    listed = await node.ask(
        list_partition_reassignments.handle,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ListPartitionReassignmentsRequest(timeout=WAIT, topics=None),
    )
    (moving,) = listed.topics[0].partitions
    assert (moving.adding_replicas, moving.removing_replicas) == ((4,), (1, 3))
    assert await moved(reassignment(None)) == ErrorCode.none
    assert await moved(reassignment(None)) == ErrorCode.no_reassignment_in_progress
    assert await moved(reassignment((1, 2), allow=False)) == ErrorCode.invalid_replication_factor
    assert await moved(reassignment((1, 9))) == ErrorCode.invalid_replica_assignment


async def test_a_broker_is_forgotten_once(node: FakeNode) -> None:
    body = UnregisterBrokerRequest(broker_id=1)  # type: ignore[arg-type]
    reply = await node.ask(unregister_broker.handle, ApiKey.UNREGISTER_BROKER, body)
    assert reply.error_code == ErrorCode.none
    assert (partition(node).leader, partition(node).isr) == (2, node_ids(2, 3))
    reply = await node.ask(unregister_broker.handle, ApiKey.UNREGISTER_BROKER, body)
    assert reply.error_code == ErrorCode.broker_id_not_registered


async def test_a_damaged_replica_is_assigned_to_nowhere(node: FakeNode) -> None:
    body = assign_request.AssignReplicasToDirsRequest(
        broker_id=1,  # type: ignore[arg-type]
        broker_epoch=1,  # type: ignore[arg-type]
        directories=(
            assign_request.DirectoryData(
                id_=LOST_DIRECTORY,
                topics=(
                    assign_request.TopicData(
                        topic_id=TOPIC_ID,
                        partitions=(
                            assign_request.PartitionData(partition_index=0),  # type: ignore[arg-type]
                            assign_request.PartitionData(partition_index=5),  # type: ignore[arg-type]
                        ),
                    ),
                ),
            ),
        ),
    )
    reply = await node.ask(assign_replicas_to_dirs.handle, ApiKey.ASSIGN_REPLICAS_TO_DIRS, body)
    (topic,) = reply.directories[0].topics
    assert [each.error_code for each in topic.partitions] == [ErrorCode.none, ErrorCode.unknown_topic_or_partition]
    assert (partition(node).leader, partition(node).isr) == (2, node_ids(2, 3))


async def test_producer_ids_come_in_blocks_for_the_present_process(node: FakeNode) -> None:
    body = AllocateProducerIdsRequest(broker_id=1, broker_epoch=1)  # type: ignore[arg-type]
    reply = await node.ask(allocate_producer_ids.handle, ApiKey.ALLOCATE_PRODUCER_IDS, body)
    assert (reply.producer_id_start, reply.producer_id_len) == (0, 1000)
    stale = AllocateProducerIdsRequest(broker_id=1, broker_epoch=0)  # type: ignore[arg-type]
    reply = await node.ask(allocate_producer_ids.handle, ApiKey.ALLOCATE_PRODUCER_IDS, stale)
    assert reply.error_code == ErrorCode.stale_broker_epoch


async def test_controllers_make_themselves_known(node: FakeNode) -> None:
    body = ControllerRegistrationRequest(
        controller_id=3,  # type: ignore[arg-type]
        incarnation_id=UUID(int=5),
        zk_migration_ready=False,
        listeners=(),
        features=(),
    )
    reply = await node.ask(controller_registration.handle, ApiKey.CONTROLLER_REGISTRATION, body)
    assert reply.error_code == ErrorCode.none
    assert node.image.controllers[NodeId(3)].incarnation_id == UUID(int=5)
