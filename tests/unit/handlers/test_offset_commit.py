"""OffsetCommit through its handler."""

from typing import Any
from uuid import UUID

import pytest

from penstock.coordinator.errors import NotCoordinator
from penstock.groups.commands import (
    COMMITTED,
    OffsetCommit,
    OffsetCommitReply,
)
from penstock.groups.records import OffsetCommitValue
from penstock.handlers import (
    offset_commit,
)
from penstock.handlers.offset_commit import OffsetCommitHandler
from penstock.handlers.support.reply import ParkedWrite
from penstock.metadata.records import RemoveTopicRecord
from penstock.wire import codec
from penstock.wire.api import ApiKey
from penstock.wire.frame import MalformedRequest, parse_header, request_head
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import ORDERS_ID, body_of, node_with_orders

UNKNOWN_TOPIC_OR_PARTITION, NOT_COORDINATOR = 3, 16
UNKNOWN_TOPIC_ID = 100


def partition(index: int, offset: int) -> dict[str, Any]:
    return {"partition_index": index, "committed_offset": offset, "committed_metadata": "n"}


def value(offset: int, topic_id: UUID = ORDERS_ID) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=offset, leader_epoch=2, metadata="n", commit_timestamp=1, expire_timestamp=-1, topic_id=topic_id
    )


@pytest.mark.parametrize("version", range(2, 11))
async def test_offsets_of_partitions_that_exist_are_committed(version: int) -> None:
    world = node_with_orders()
    world.groups.replies[OffsetCommit] = OffsetCommitReply((0, 12))
    body = body_of(
        ApiKey.OFFSET_COMMIT,
        version,
        group_id="g",
        topics=[
            {
                "name": "orders",
                "topic_id": ORDERS_ID,
                "partitions": [partition(1, 5), partition(9, 1), partition(0, 6)],
            },
            {"name": "gone", "topic_id": UUID(int=99), "partitions": [partition(0, 1)]},
        ],
    )
    reply = world.ask_hot(OffsetCommitHandler(world.context).handle, ApiKey.OFFSET_COMMIT, body, version=version)
    rows = [[(part.partition_index, part.error_code) for part in topic.partitions] for topic in reply.topics]
    unknown = UNKNOWN_TOPIC_ID if version >= 10 else UNKNOWN_TOPIC_OR_PARTITION
    assert rows == [[(9, UNKNOWN_TOPIC_OR_PARTITION), (1, 0), (0, 12)], [(0, unknown)]]
    (command,) = world.groups.commands
    assert [(each.topic, each.topic_id, each.partition, each.offset) for each in command.offsets] == [
        ("orders", ORDERS_ID, 1, 5),
        ("orders", ORDERS_ID, 0, 6),
    ]
    assert command.knows_member_epochs == (version >= 9)


async def test_a_commit_without_existing_partitions_does_not_reach_the_group() -> None:
    world = node_with_orders()
    body = body_of(ApiKey.OFFSET_COMMIT, 9, group_id="g", topics=[{"name": "gone", "partitions": [partition(0, 1)]}])
    reply = world.ask_hot(OffsetCommitHandler(world.context).handle, ApiKey.OFFSET_COMMIT, body, version=9)
    assert reply.topics[0].partitions[0].error_code == UNKNOWN_TOPIC_OR_PARTITION and not world.groups.commands
    world.groups.replies[OffsetCommit] = NotCoordinator()
    body = body_of(ApiKey.OFFSET_COMMIT, 9, group_id="g", topics=[{"name": "orders", "partitions": [partition(0, 1)]}])
    reply = world.ask_hot(OffsetCommitHandler(world.context).handle, ApiKey.OFFSET_COMMIT, body, version=9)
    assert reply.topics[0].partitions[0].error_code == NOT_COORDINATOR


@pytest.mark.parametrize("version", range(2, 11))
async def test_a_repeated_commit_is_decoded_like_the_first(version: int) -> None:
    """Check that the cache does not change the result, whatever the offset, the commit metadata and the response."""
    world = node_with_orders()
    handler = OffsetCommitHandler(world.context)
    replies = [COMMITTED, COMMITTED, OffsetCommitReply((12,)), NotCoordinator()]
    for number, note in enumerate(["", "", None, "", "n", "\x01", "\x00", "", "\x00\x00\x01", None, "", ""]):
        world.groups.replies[OffsetCommit] = replies[number % len(replies)]
        row = {**partition(1, 1 << 8 * (number % 8)), "committed_metadata": note, "committed_leader_epoch": number - 1}
        topics = [{"name": "orders", "topic_id": ORDERS_ID, "partitions": [row]}]
        body = body_of(ApiKey.OFFSET_COMMIT, version, group_id="g", member_id="m", generation_id=3, topics=topics)
        again, first = (
            world.ask_hot(one.handle, ApiKey.OFFSET_COMMIT, body, version=version)
            for one in (handler, OffsetCommitHandler(world.context))
        )
        assert again == first
    sent_commands = world.groups.commands
    assert len(sent_commands) == 24
    for again, first in zip(sent_commands[::2], sent_commands[1::2], strict=True):
        assert again._replace(offsets=list(again.offsets)) == first
    assert len(handler._cached_commits) == (1 if version >= 8 else 0)


async def test_cached_commits_end_with_the_metadata_image_and_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = node_with_orders()
    world.groups.replies[OffsetCommit] = COMMITTED
    handler = OffsetCommitHandler(world.context)

    def commit(group_id: str) -> int:
        row = {**partition(1, 5), "committed_metadata": ""}
        topics = [{"name": "orders", "partitions": [row]}]
        body = body_of(ApiKey.OFFSET_COMMIT, 9, group_id=group_id, topics=topics)
        reply = world.ask_hot(handler.handle, ApiKey.OFFSET_COMMIT, body, version=9)
        return int(reply.topics[0].partitions[0].error_code)

    monkeypatch.setattr(offset_commit, "CACHED_COMMITS_MAX", 3)
    assert [commit(f"g{number}") for number in range(8)] == [0] * 8
    assert len(handler._cached_commits) == 2
    world.quorum.put([RemoveTopicRecord(topic_id=ORDERS_ID)])
    assert commit("g7") == UNKNOWN_TOPIC_OR_PARTITION


# -- many partitions in one request ----------------------------------------------------------


def large(world: FakeNode, count: int) -> Any:
    """Commit offsets of many partitions of orders, one that does not exist and a topic that does not."""
    rows = [partition(index, index) for index in range(count)]
    topics = [
        {"name": "orders", "partitions": [partition(count + 5, 0), *rows]},
        {"name": "gone", "partitions": [partition(0, 1)]},
    ]
    body = body_of(ApiKey.OFFSET_COMMIT, 9, group_id="g", member_id="m", generation_id=3, topics=topics)
    written = codec.write_request(ApiKey.OFFSET_COMMIT, 9, body)
    frame = memoryview(request_head(ApiKey.OFFSET_COMMIT, 9, 7, "client", len(written)) + written)[4:]
    assert len(frame) > offset_commit.LARGE_SIZE_MIN
    parked = OffsetCommitHandler(world.context).handle(frame, parse_header(frame))
    assert isinstance(parked, ParkedWrite)
    while parked.parts is None and world.clock.timers:
        world.clock.ring()
    return parked


def codes_of(parked: Any) -> dict[str, dict[int, int]]:
    reply = FakeNode._read(ApiKey.OFFSET_COMMIT, 9, parked.parts)
    return {
        topic.name: {row.partition_index: int(row.error_code) for row in topic.partitions} for topic in reply.topics
    }


class Shards:
    """Answers each part of a commit with one of the replies, in turn."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.sizes: list[int] = []

    def commit(self, command: Any, done: Any) -> None:
        self.sizes.append(len(command.offsets))
        reply = self.replies[(len(self.sizes) - 1) % len(self.replies)]
        if isinstance(reply, NotCoordinator):
            raise reply
        if isinstance(reply, Exception):
            done(None, reply)
        else:
            done(OffsetCommitReply((reply,) * len(command.offsets)), None)


@pytest.mark.parametrize(
    ("replies", "codes"),
    [
        ((0,), {0}),
        ((0, 12), {0, 12}),
        ((0, NotCoordinator()), {0, NOT_COORDINATOR}),
        ((0, RuntimeError("bug")), {0, -1}),
    ],
)
async def test_a_large_commit_is_decided_in_parts_and_answered_once(replies: tuple[Any, ...], codes: set[int]) -> None:
    count = 3000
    world = node_with_orders(partitions=count)
    shards: Any = Shards(*replies)
    world.context.groups = shards
    found = codes_of(large(world, count))
    assert found["gone"] == {0: UNKNOWN_TOPIC_OR_PARTITION}
    assert found["orders"].pop(count + 5) == UNKNOWN_TOPIC_OR_PARTITION
    assert sorted(found["orders"]) == list(range(count))
    assert set(found["orders"].values()) == codes
    assert sum(shards.sizes) == count
    assert max(shards.sizes) < 200


async def test_a_commit_larger_than_any_client_sends_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_commit, "LARGE_SIZE_MAX", 1)
    with pytest.raises(MalformedRequest):
        large(node_with_orders(), 3000)
