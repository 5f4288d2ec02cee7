"""AddRaftVoter through its handler."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from penstock.wire.api import ApiKey
from tests.unit.handlers.quorum import ask, nodes
from tests.unit.handlers.requests import SOON
from tests.unit.metadata.many import Many

LISTENERS = [{"name": "CONTROLLER", "host": "host", "port": 9}]


async def add(world: Many, voter: int = 9, *, node: int = 1, **changes: Any) -> Any:
    fields = {"voter_id": voter, "voter_directory_id": UUID(int=9), "listeners": LISTENERS, "timeout": SOON}
    return await ask(world, ApiKey.ADD_RAFT_VOTER, node=node, **{**fields, **changes})


@pytest.mark.parametrize(
    ("voter", "changes", "error"),
    [
        (9, {"cluster_id": "another"}, ErrorCode.inconsistent_cluster_id),
        (9, {"listeners": []}, ErrorCode.invalid_request),
        (1, {}, ErrorCode.duplicate_voter),
    ],
)
async def test_a_voter_that_cannot_be_added_is_refused(voter: int, changes: dict[str, Any], error: ErrorCode) -> None:
    async with nodes(1) as world:
        reply = await add(world, voter, **changes)
        assert (reply.error_code, bool(reply.error_message)) == (error, True)
        assert [each.id for each in world.quorums[1].voter_registry.present] == [1]


async def test_a_node_that_does_not_catch_up_in_time_is_not_added() -> None:
    async with nodes(1) as world:
        pending = asyncio.ensure_future(add(world, timeout=timedelta(seconds=1)))
        await world.pass_time(0.5)
        assert not pending.done()
        await world.pass_time(1)
        assert (await pending).error_code == ErrorCode.request_timed_out
        assert [each.id for each in world.quorums[1].voter_registry.present] == [1]


async def test_only_the_active_controller_adds_voters() -> None:
    async with nodes(3) as world:
        assert (await add(world)).error_code == ErrorCode.not_controller


async def test_a_node_is_added_only_with_the_directory_from_which_it_fetches() -> None:
    async with nodes(3) as world:
        active = await world.until_active()
        leader = int(active.node_id)
        other = next(node for node in world.quorums if node != leader)
        removal: dict[str, Any] = {"voter_id": other, "voter_directory_id": UUID(int=other)}
        removing = asyncio.ensure_future(ask(world, ApiKey.REMOVE_RAFT_VOTER, node=leader, **removal))
        await world.pass_time(1)
        assert (await removing).error_code == ErrorCode.none
        for directory, error in ((UUID(int=77), ErrorCode.request_timed_out), (UUID(int=other), ErrorCode.none)):
            adding = asyncio.ensure_future(add(world, other, node=leader, voter_directory_id=directory))
            await world.pass_time(SOON.total_seconds() + 1)
            assert (await adding).error_code == error
