"""OffsetFetch through its handler."""

from typing import Any
from uuid import UUID

import pytest

from penstock.coordinator.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable
from penstock.groups.commands import (
    OffsetFetch,
    OffsetFetchReply,
)
from penstock.groups.records import OffsetCommitValue
from penstock.handlers import (
    offset_fetch,
)
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import ORDERS_ID, body_of, node_with_orders

UNKNOWN_TOPIC_ID = 100
NOT_COORDINATOR = 16


def value(offset: int, topic_id: UUID = ORDERS_ID) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=offset, leader_epoch=2, metadata="n", commit_timestamp=1, expire_timestamp=-1, topic_id=topic_id
    )


def fetch_body(version: int, topics: list[dict[str, Any]] | None) -> Any:
    return body_of(
        ApiKey.OFFSET_FETCH,
        version,
        group_id="g",
        topics=topics,
        groups=[{"group_id": "g", "topics": topics}],
    )


async def fetch(world: FakeNode, version: int, topics: list[dict[str, Any]] | None) -> Any:
    """Return the only group of the reply, whatever the version."""
    body = fetch_body(version, topics)
    reply = await world.ask(offset_fetch.handle, ApiKey.OFFSET_FETCH, body, version=version)
    return reply.groups[0] if version >= 8 else reply


@pytest.mark.parametrize("version", range(1, 11))
async def test_offsets_are_returned_and_missing_commits_are_no_error(version: int) -> None:
    world = node_with_orders()
    world.groups.replies[OffsetFetch] = OffsetFetchReply(topics=(("orders", ((0, value(5)), (1, None))),))
    topics = [
        {"name": "orders", "topic_id": ORDERS_ID, "partition_indexes": (0, 1)},
        {"name": "gone", "topic_id": UUID(int=99), "partition_indexes": (4,)},
    ]
    group = await fetch(world, version, topics if version >= 10 else topics[:1])
    rows = [(part.partition_index, part.committed_offset, part.error_code) for part in group.topics[0].partitions]
    assert rows == [(0, 5, 0), (1, -1, 0)]
    assert group.topics[0].partitions[0].metadata == "n"
    if version >= 10:
        unknown = group.topics[1].partitions[0]
        assert (unknown.partition_index, unknown.error_code) == (4, UNKNOWN_TOPIC_ID)
    assert world.groups.commands[0].topics == (("orders", (0, 1)),)


@pytest.mark.parametrize("version", [2, 8, 10])
async def test_null_means_all_committed_offsets(version: int) -> None:
    world = node_with_orders()
    # One topic was just deleted: its id has no name any more.
    world.groups.replies[OffsetFetch] = OffsetFetchReply(
        topics=(("orders", ((0, value(5)),)), ("gone", ((0, value(1)),)))
    )
    group = await fetch(world, version, None)
    assert world.groups.commands[0].topics is None
    assert len(group.topics) == (1 if version >= 10 else 2)


@pytest.mark.parametrize("version", [7, 10])
async def test_offsets_committed_for_an_earlier_topic_of_the_name_are_not_returned(version: int) -> None:
    world = node_with_orders()
    old, unmarked = value(5, UUID(int=6)), value(6, UUID(int=0))
    world.groups.replies[OffsetFetch] = OffsetFetchReply(topics=(("orders", ((0, old), (1, unmarked))),))
    group = await fetch(world, version, None)
    assert [part.committed_offset for part in group.topics[0].partitions] == [-1, 6]


@pytest.mark.parametrize("version", [1, 2, 7, 8, 10])
async def test_the_error_of_a_group_is_in_the_field_that_its_version_has(version: int) -> None:
    world = node_with_orders()
    topics = [{"name": "orders", "topic_id": ORDERS_ID, "partition_indexes": (0,)}]
    for group_reply, error in (
        (OffsetFetchReply(error=113), 113),
        (CoordinatorLoadInProgress(), CoordinatorLoadInProgress.code),
        (CoordinatorNotAvailable(), NOT_COORDINATOR),
    ):
        world.groups.replies[OffsetFetch] = group_reply
        group = await fetch(world, version, topics)
        if version == 1:
            (row,) = group.topics[0].partitions
            assert (row.committed_offset, row.error_code) == (-1, error)
        else:
            assert (group.error_code, group.topics) == (error, ())
