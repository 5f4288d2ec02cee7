"""AlterPartition through its handler."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from penstock.config.settings import BrokerSettings
from penstock.controller.decision import ControllerDecision
from penstock.handlers import alter_partition
from penstock.metadata.image import Image
from penstock.model.job import Job
from penstock.wire.api import ApiKey
from tests.unit.controller.cluster import TOPIC_ID
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import body_of, only_partition


async def alter(
    node: FakeNode,
    *members: int,
    version: int = 3,
    broker_epoch: int = 1,
    member_epochs: dict[int, int] | None = None,
    topic_id: UUID = TOPIC_ID,
    **changes: int,
) -> Any:
    epochs = member_epochs or {}
    partition = {
        "partition_index": 0,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "new_isr": members,
        "new_isr_with_epochs": [{"broker_id": each, "broker_epoch": epochs.get(each, each)} for each in members],
        **changes,
    }
    topics = [{"topic_id": topic_id, "partitions": [partition]}]
    key = ApiKey.ALTER_PARTITION
    body = body_of(key, version, broker_id=1, broker_epoch=broker_epoch, topics=topics)
    return await node.ask(alter_partition.handle, key, body, version=version)


@pytest.mark.parametrize("version", [2, 3])
async def test_a_leader_changes_its_in_sync_replicas(node: FakeNode, version: int) -> None:
    reply = await alter(node, 1, 2, version=version)
    (now,) = reply.topics[0].partitions
    assert (now.error_code, now.leader_id, now.isr, now.partition_epoch) == (ErrorCode.none, 1, (1, 2), 1)
    assert only_partition(node).isr == (1, 2)
    again = await alter(node, 1, 2, version=version)
    assert again.topics[0].partitions[0].error_code == ErrorCode.invalid_update_version


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"leader_epoch": 1}, ErrorCode.not_controller),
        ({"leader_epoch": -1}, ErrorCode.fenced_leader_epoch),
        ({"partition_index": 5}, ErrorCode.unknown_topic_or_partition),
        ({"topic_id": UUID(int=99)}, ErrorCode.unknown_topic_id),
        ({"member_epochs": {2: 1}}, ErrorCode.ineligible_replica),
    ],
)
async def test_a_refused_change_has_no_leader(node: FakeNode, changes: dict[str, Any], error: ErrorCode) -> None:
    (row,) = (await alter(node, 1, 2, **changes)).topics[0].partitions
    assert (row.error_code, row.leader_id, row.leader_epoch, row.partition_epoch) == (error, -1, -1, -1)
    assert only_partition(node).isr == (1, 2, 3)


async def test_a_stale_broker_and_a_node_that_is_not_the_controller_refuse_the_request(node: FakeNode) -> None:
    reply = await alter(node, 1, 2, broker_epoch=0)
    assert (reply.error_code, reply.topics) == (ErrorCode.stale_broker_epoch, ())
    node.quorum.is_active = False
    reply = await alter(node, 1, 2)
    assert (reply.error_code, reply.topics) == (ErrorCode.not_controller, ())


async def test_a_change_that_waits_for_its_turn_is_decided_with_the_settings_of_that_time(node: FakeNode) -> None:
    monitor = node.context.monitor

    def raising_min_isr(_: Image) -> Job[ControllerDecision[None]]:
        yield None
        monitor._current_settings = lambda: BrokerSettings({"min.insync.replicas": "2"})
        return ControllerDecision((), None)

    before = asyncio.ensure_future(node.context.controller.run(raising_min_isr))
    await asyncio.sleep(0)
    await alter(node, 1)
    await before
    assert only_partition(node).eligible_leader_replicas == (2, 3)
