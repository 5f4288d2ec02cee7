"""Vote through its handler."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from penstock.wire.api import ApiKey
from tests.unit.handlers.quorum import METADATA, ask, check_refusals, nodes
from tests.unit.metadata.many import Many

CANDIDATE = {"partition_index": 0, "replica_epoch": 5, "last_offset_epoch": 0, "last_offset": 0}


async def vote(world: Many, candidate: int, *, version: int = 2, **changes: Any) -> tuple[ErrorCode, bool, int, int]:
    partition = {**CANDIDATE, "replica_id": candidate, **changes}
    topics = [{"topic_name": METADATA, "partitions": [partition]}]
    reply = await ask(world, ApiKey.VOTE, version=version, topics=topics)
    (row,) = reply.topics[0].partitions
    return row.error_code, row.vote_granted, row.leader_epoch, row.leader_id


@pytest.mark.parametrize("version", range(3))
async def test_a_node_votes_once_in_an_epoch(version: int) -> None:
    async with nodes(3) as world:
        assert await vote(world, 2, version=version) == (ErrorCode.none, True, 5, -1)
        assert await vote(world, 2, version=version) == (ErrorCode.none, True, 5, -1)
        assert await vote(world, 3, version=version) == (ErrorCode.none, False, 5, -1)
        assert await vote(world, 3, version=version, replica_epoch=6) == (ErrorCode.none, True, 6, -1)


async def test_a_candidate_of_an_older_epoch_is_fenced() -> None:
    async with nodes(3) as world:
        await vote(world, 2)
        assert await vote(world, 3, replica_epoch=4) == (ErrorCode.fenced_leader_epoch, False, 5, -1)


async def test_a_pre_vote_changes_no_state() -> None:
    async with nodes(3) as world:
        error, granted, epoch, _ = await vote(world, 2, pre_vote=True, replica_epoch=0)
        assert (error, granted, epoch) == (ErrorCode.none, True, 0)
        assert await vote(world, 3) == (ErrorCode.none, True, 5, -1)


async def test_the_leader_is_named_with_its_address() -> None:
    async with nodes(3) as world:
        leader = await world.until_active()
        other = next(each for each in (1, 2, 3) if each != leader.node_id)
        partition = {**CANDIDATE, "replica_id": 9, "replica_epoch": leader.epoch}
        topics = [{"topic_name": METADATA, "partitions": [partition]}]
        reply = await ask(world, ApiKey.VOTE, node=other, topics=topics)
        (row,) = reply.topics[0].partitions
        assert (row.vote_granted, row.leader_id) == (False, leader.node_id)
        assert [(each.node_id, each.host, each.port) for each in reply.node_endpoints] == [
            (leader.node_id, "host", leader.node_id)
        ]


async def test_a_request_that_is_not_from_another_voter_is_refused() -> None:
    await check_refusals(ApiKey.VOTE, "replica_id", **CANDIDATE)
