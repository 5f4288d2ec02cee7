"""RemoveRaftVoter through its handler."""

from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from penstock.wire.api import ApiKey
from tests.unit.handlers.quorum import ask, nodes
from tests.unit.metadata.many import Many


async def remove(world: Many, voter: int, *, node: int = 1, **changes: Any) -> Any:
    fields = {"voter_id": voter, "voter_directory_id": UUID(int=voter)}
    return await ask(world, ApiKey.REMOVE_RAFT_VOTER, node=node, **{**fields, **changes})


@pytest.mark.parametrize(
    ("voter", "changes", "error"),
    [
        (1, {"cluster_id": "another"}, ErrorCode.inconsistent_cluster_id),
        (9, {}, ErrorCode.voter_not_found),
        (1, {"voter_directory_id": UUID(int=5)}, ErrorCode.voter_not_found),
        (1, {}, ErrorCode.invalid_request),  # the last one
    ],
)
async def test_a_voter_that_cannot_be_removed_stays(voter: int, changes: dict[str, Any], error: ErrorCode) -> None:
    async with nodes(1) as world:
        reply = await remove(world, voter, **changes)
        assert (reply.error_code, bool(reply.error_message)) == (error, True)
        assert [each.id for each in world.quorums[1].voter_registry.present] == [1]


async def test_only_the_active_controller_removes_voters() -> None:
    async with nodes(3) as world:
        assert (await remove(world, 2)).error_code == ErrorCode.not_controller
