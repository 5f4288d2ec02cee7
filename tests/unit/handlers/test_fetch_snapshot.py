"""FetchSnapshot through its handler."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.fetch_snapshot.v1.request import SnapshotId
from kio.static.primitive import i32, i64

from penstock.wire.api import ApiKey
from tests.unit.handlers.quorum import METADATA, ask, nodes
from tests.unit.metadata.many import Many

KEY = ApiKey.FETCH_SNAPSHOT
NAME = "00000000000000000007-0000000001.checkpoint"
DATA = bytes(range(100))


def topics(*partitions: dict[str, Any], name: str = METADATA) -> list[dict[str, Any]]:
    return [{"name": name, "partitions": list(partitions)}]


@asynccontextmanager
async def checkpoint() -> AsyncIterator[Many]:
    """Start a single voter with a snapshot of 100 bytes at offset 7."""
    async with nodes(1) as world:
        world.disks[1].replace_file(f"{world.quorums[1].log.folder}/{NAME}", DATA)
        yield world


async def fetch(world: Many, *, max_bytes: int = 1000, version: int = 1, end: int = 7, **changes: int) -> Any:
    quorum = world.quorums[1]
    requested = {"partition": 0, "current_leader_epoch": quorum.epoch, "position": 0, **changes}
    # The id of the snapshot is an entity, not a list of them.
    requested["snapshot_id"] = SnapshotId(end_offset=i64(end), epoch=i32(1))  # type: ignore[assignment]
    reply = await ask(world, KEY, version=version, replica_id=2, max_bytes=max_bytes, topics=topics(requested))
    assert reply.error_code == ErrorCode.none
    (row,) = reply.topics[0].partitions
    assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (1, quorum.epoch)
    return row


@pytest.mark.parametrize(
    ("position", "max_bytes", "size"), [(0, 1000, 100), (0, 40, 40), (90, 40, 10), (99, 1, 1), (5, 0, 1)]
)
async def test_a_snapshot_is_sent_in_parts_of_at_least_a_byte(position: int, max_bytes: int, size: int) -> None:
    async with checkpoint() as world:
        row = await fetch(world, position=position, max_bytes=max_bytes)
        assert (row.error_code, row.size, row.position) == (ErrorCode.none, 100, position)
        assert bytes(row.unaligned_records) == DATA[position : position + size]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"current_leader_epoch": 0}, ErrorCode.fenced_leader_epoch),
        ({"current_leader_epoch": 9}, ErrorCode.unknown_leader_epoch),
        ({"end": 8}, ErrorCode.snapshot_not_found),
        ({"position": 100}, ErrorCode.position_out_of_range),
        ({"position": -1}, ErrorCode.position_out_of_range),
    ],
)
async def test_a_missing_snapshot_or_position_is_refused(changes: dict[str, int], error: ErrorCode) -> None:
    async with checkpoint() as world:
        row = await fetch(world, **changes)
        assert (row.error_code, row.size, bytes(row.unaligned_records)) == (error, 0, b"")


async def test_a_snapshot_that_cannot_be_read_is_a_storage_error() -> None:
    async with checkpoint() as world:
        world.disks[1].make_unreadable(f"{world.quorums[1].log.folder}/{NAME}", 0, 100)
        assert (await fetch(world)).error_code == ErrorCode.kafka_storage_error


async def test_only_the_leader_serves_snapshots() -> None:
    async with nodes(3) as world:
        leader = await world.until_active()
        await world.pass_time(0.2)
        follower = next(each for each in (1, 2, 3) if each != leader.node_id)
        requested = {
            "partition": 0,
            "current_leader_epoch": leader.epoch,
            "snapshot_id": SnapshotId(end_offset=i64(7), epoch=i32(1)),
            "position": 0,
        }
        reply = await ask(world, KEY, node=follower, replica_id=9, max_bytes=10, topics=topics(requested))
        (row,) = reply.topics[0].partitions
        assert (row.error_code, row.current_leader.leader_id) == (
            ErrorCode.not_leader_or_follower,
            leader.node_id,
        )


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"cluster_id": "another"}, ErrorCode.inconsistent_cluster_id),
        ({"replica_id": 1}, ErrorCode.invalid_request),
        ({"topics": []}, ErrorCode.invalid_request),
        ({"topics": topics(name="orders")}, ErrorCode.invalid_request),
    ],
)
async def test_a_request_that_is_not_from_another_node_is_refused(fields: dict[str, Any], error: ErrorCode) -> None:
    async with nodes(1) as world:
        reply = await ask(world, KEY, **{"replica_id": 2, "max_bytes": 10, "topics": topics(), **fields})
        assert (reply.error_code, reply.topics) == (error, ())
