"""Fetch of the metadata log through its handler."""

from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from penstock.metadata.voter_wire import METADATA_TOPIC_ID
from penstock.wire.frame import parse_header
from tests.differential.entities import request_frame
from tests.unit.handlers.quorum import nodes
from tests.unit.metadata.many import CLUSTER, Many


async def fetch(world: Many, *, replica: int = 9, version: int = 17, node: int = 1, **changes: Any) -> Any:
    """Fetch as an observer, or as a voter."""
    quorum = world.quorums[node]
    row = {
        "partition": 0,
        "current_leader_epoch": quorum.epoch,
        "fetch_offset": 0,
        "last_fetched_epoch": 0,
        "partition_max_bytes": 10_000,
        "replica_directory_id": UUID(int=replica),
    }
    rows = changes.pop("rows", [{**row, **changes}])
    values = {
        "cluster_id": changes.pop("cluster_id", CLUSTER),
        "replica_id": replica,
        "replica_state": {"replica_id": replica, "replica_epoch": -1},
        "max_wait": 500,
        "min_bytes": 1,
        "max_bytes": 10_000,
        "topics": [{"topic_id": METADATA_TOPIC_ID, "partitions": rows}],
    }
    frame = memoryview(bytearray(request_frame("fetch", version, values)[4:]))
    assert parse_header(frame).version == version
    return await world.answer(node, frame)


@pytest.mark.parametrize("version", [13, 14, 15, 16, 17, 18])
async def test_the_leader_answers_with_records_and_its_high_watermark(version: int) -> None:
    async with nodes(1) as world:
        (row,) = (await fetch(world, version=version)).responses[0].partitions
        assert (row.error_code, row.current_leader.leader_id) == (ErrorCode.none, 1)
        assert row.high_watermark > 0
        assert row.records


async def test_a_follower_names_the_leader() -> None:
    async with nodes(3) as world:
        leader = await world.until_active()
        await world.pass_time(0.2)
        follower = next(each for each in (1, 2, 3) if each != leader.node_id)
        reply = await fetch(world, node=follower)
        (row,) = reply.responses[0].partitions
        assert (row.error_code, row.current_leader.leader_id) == (ErrorCode.not_leader_or_follower, leader.node_id)
        assert [each.node_id for each in reply.node_endpoints] == [leader.node_id]


@pytest.mark.parametrize(("step", "error"), [(-1, ErrorCode.fenced_leader_epoch), (1, ErrorCode.unknown_leader_epoch)])
async def test_another_epoch_is_refused(step: int, error: ErrorCode) -> None:
    async with nodes(1) as world:
        epoch = world.quorums[1].epoch + step
        (row,) = (await fetch(world, current_leader_epoch=epoch)).responses[0].partitions
        assert row.error_code == error


async def test_a_diverging_log_gets_the_end_of_its_last_common_epoch() -> None:
    async with nodes(1) as world:
        (row,) = (await fetch(world, fetch_offset=10_000, last_fetched_epoch=1)).responses[0].partitions
        assert row.diverging_epoch.end_offset == world.quorums[1].core.log.end_offset


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cluster_id": "another"}, ErrorCode.inconsistent_cluster_id),
        ({"replica": 1}, ErrorCode.invalid_request),
        ({"rows": [{"partition": 0}, {"partition": 1}]}, ErrorCode.invalid_request),
    ],
)
async def test_a_request_that_is_not_from_another_node_is_refused(changes: dict[str, Any], error: ErrorCode) -> None:
    async with nodes(1) as world:
        reply = await fetch(world, **changes)
        assert (reply.error_code, reply.responses) == (error, ())
