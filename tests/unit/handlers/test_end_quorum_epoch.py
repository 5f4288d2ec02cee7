"""EndQuorumEpoch through its handler."""

import pytest
from kio.schema.errors import ErrorCode

from penstock.wire.api import ApiKey
from tests.unit.handlers.quorum import METADATA, ask, check_refusals, nodes
from tests.unit.metadata.many import Many

KEY = ApiKey.END_QUORUM_EPOCH


async def end(
    world: Many, node: int, leader: int, epoch: int, *, version: int = 1, successors: tuple[int, ...] = ()
) -> tuple[ErrorCode, int]:
    partition = {
        "partition_index": 0,
        "leader_id": leader,
        "leader_epoch": epoch,
        "preferred_successors": successors,
        "preferred_candidates": [{"candidate_id": each} for each in successors],
    }
    topics = [{"topic_name": METADATA, "partitions": [partition]}]
    reply = await ask(world, KEY, node=node, version=version, topics=topics)
    (row,) = reply.topics[0].partitions
    return row.error_code, row.leader_epoch


@pytest.mark.parametrize("version", [0, 1])
async def test_the_first_successor_leads_next(version: int) -> None:
    async with nodes(3) as world:
        former = await world.until_active()
        await world.pass_time(0.2)
        first, second = (each for each in (3, 2, 1) if each != former.node_id)
        former_epoch = former.epoch
        world.crash(former.node_id)
        for node in (first, second):
            error, _ = await end(world, node, former.node_id, former_epoch, version=version, successors=(first, second))
            assert error == ErrorCode.none
        await world.pass_time(0.3)
        assert (world.quorums[second].leader, world.quorums[first].is_active) == (first, True)


async def test_the_end_of_an_older_epoch_is_ignored() -> None:
    async with nodes(3) as world:
        leader = await world.until_active()
        follower = next(each for each in (1, 2, 3) if each != leader.node_id)
        await world.pass_time(0.2)
        assert await end(world, follower, leader.node_id, leader.epoch - 1) == (
            ErrorCode.fenced_leader_epoch,
            leader.epoch,
        )
        assert world.quorums[follower].leader == leader.node_id


async def test_a_request_that_is_not_from_another_voter_is_refused() -> None:
    await check_refusals(KEY, "leader_id", partition_index=0, leader_epoch=5)
