"""BeginQuorumEpoch through its handler."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from penstock.model.ids import NodeId
from penstock.wire.api import ApiKey
from tests.unit.handlers.quorum import METADATA, ask, check_refusals, nodes
from tests.unit.metadata.many import Many

KEY = ApiKey.BEGIN_QUORUM_EPOCH


async def begin(world: Many, leader: int, epoch: int, *, version: int = 1, **more: Any) -> tuple[ErrorCode, int, int]:
    partition = {"partition_index": 0, "leader_id": leader, "leader_epoch": epoch}
    topics = [{"topic_name": METADATA, "partitions": [partition]}]
    reply = await ask(world, KEY, version=version, topics=topics, **more)
    (row,) = reply.topics[0].partitions
    return row.error_code, row.leader_id, row.leader_epoch


@pytest.mark.parametrize("version", [0, 1])
async def test_the_leader_of_a_newer_epoch_is_followed(version: int) -> None:
    async with nodes(3) as world:
        assert await begin(world, 2, 5, version=version) == (ErrorCode.none, 2, 5)
        assert (world.quorums[1].leader, world.quorums[1].epoch) == (2, 5)


async def test_the_leader_of_an_older_epoch_gets_the_current_one() -> None:
    async with nodes(3) as world:
        await begin(world, 2, 5)
        assert await begin(world, 3, 4) == (ErrorCode.fenced_leader_epoch, 2, 5)
        assert world.quorums[1].leader == 2


async def test_the_first_listener_of_the_leader_is_remembered() -> None:
    async with nodes(1) as world:
        listeners = [{"name": "C", "host": "new", "port": 9}, {"name": "D", "host": "other", "port": 10}]
        await begin(world, 7, 5, leader_endpoints=listeners)
        assert world.quorums[1].voter_registry.address_of(NodeId(7)) == ("new", 9)


async def test_a_request_that_is_not_from_another_voter_is_refused() -> None:
    await check_refusals(KEY, "leader_id", partition_index=0, leader_epoch=5)
