"""UpdateRaftVoter through its handler."""

from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from penstock.wire.api import ApiKey
from tests.unit.handlers.quorum import ask, nodes
from tests.unit.metadata.many import Many


async def update(world: Many, voter: int, *, node: int = 1, **changes: Any) -> Any:
    listeners = [{"name": "CONTROLLER", "host": "moved", "port": 9}]
    fields = {"current_leader_epoch": -1, "voter_id": voter, "voter_directory_id": UUID(int=1), "listeners": listeners}
    return await ask(world, ApiKey.UPDATE_RAFT_VOTER, node=node, **{**fields, **changes})


async def test_a_voter_changes_its_address() -> None:
    async with nodes(1) as world:
        quorum = world.quorums[1]
        reply = await update(world, 1)
        assert (reply.error_code, reply.current_leader.leader_id) == (ErrorCode.none, 1)
        (voter,) = quorum.voter_registry.present
        assert [(each.host, each.port) for each in voter.endpoints] == [("moved", 9)]
        end = quorum.image.offset
        assert (await update(world, 1)).error_code == ErrorCode.none
        assert quorum.image.offset == end, "the same address again writes nothing"


@pytest.mark.parametrize(
    ("voter", "changes", "error"),
    [
        (1, {"cluster_id": "another"}, ErrorCode.inconsistent_cluster_id),
        (9, {}, ErrorCode.voter_not_found),
        (1, {"voter_directory_id": UUID(int=5)}, ErrorCode.voter_not_found),
        (1, {"current_leader_epoch": 0}, ErrorCode.fenced_leader_epoch),
    ],
)
async def test_a_refused_update_names_the_leader(voter: int, changes: dict[str, Any], error: ErrorCode) -> None:
    async with nodes(1) as world:
        before = world.quorums[1].voter_registry.present
        reply = await update(world, voter, **changes)
        assert (reply.error_code, reply.current_leader.leader_id) == (error, 1)
        assert reply.current_leader.leader_epoch == world.quorums[1].epoch
        assert world.quorums[1].voter_registry.present == before


async def test_without_a_leader_there_is_no_address() -> None:
    async with nodes(3) as world:
        reply = await update(world, 2)
        assert reply.error_code == ErrorCode.not_controller
        leader = reply.current_leader
        assert (leader.leader_id, leader.host, leader.port) == (-1, "", -1)
