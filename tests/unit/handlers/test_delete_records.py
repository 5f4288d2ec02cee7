"""DeleteRecords through its handler."""

import asyncio
from typing import Any

import pytest
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic

from penstock.handlers import delete_records
from penstock.model.errors import StorageError
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode, FakePartition
from tests.unit.handlers.requests import SOON, node_with_records


async def delete(node: FakeNode, *requested: tuple[str, int, int]) -> list[tuple[str, int, int, int]]:
    topics: Any = tuple(
        DeleteRecordsTopic(
            name=name,  # type: ignore[arg-type]
            partitions=(DeleteRecordsPartition(partition_index=index, offset=offset),),  # type: ignore[arg-type]
        )
        for name, index, offset in requested
    )
    body = DeleteRecordsRequest(topics=topics, timeout=SOON)
    reply = await node.ask(delete_records.handle, ApiKey.DELETE_RECORDS, body)
    return [
        (topic.name, each.partition_index, each.low_watermark, each.error_code)
        for topic in reply.topics
        for each in topic.partitions
    ]


@pytest.mark.parametrize(
    ("offset", "low_watermark", "code"),
    [(4, 4, 0), (9, 9, 0), (-1, 9, 0), (1, 2, 0), (2, 2, 0), (10, -1, 1), (-2, -1, 1)],
)
async def test_the_log_start_moves_up_to_the_high_watermark_and_never_back(
    offset: int, low_watermark: int, code: int
) -> None:
    node = node_with_records()
    assert await delete(node, ("a", 0, offset)) == [("a", 0, low_watermark, code)]
    assert node.replicas.partitions["a", 0].log.start_offset == max(low_watermark, 2)


@pytest.mark.parametrize(("policy", "code"), [("compact", 44), ("compact,delete", 0), ("delete", 0), ("", 0)])
async def test_records_of_topics_that_are_only_compacted_are_not_deleted(policy: str, code: int) -> None:
    node = node_with_records()
    node.replicas.partitions["a", 0].log.overrides = {"cleanup.policy": policy}
    ((*_, found),) = await delete(node, ("a", 0, 4))
    assert found == code


async def test_the_later_offset_of_a_partition_named_twice_counts() -> None:
    assert await delete(node_with_records(), ("a", 0, 10), ("a", 0, 5), ("b", 0, 0)) == [
        ("a", 0, 5, 0),
        ("b", 0, -1, 3),
    ]


async def test_only_the_leader_deletes_and_never_from_internal_topics() -> None:
    node = node_with_records()
    node.replicas.partitions["a", 0].is_leader = False
    node.replicas.put(FakePartition("__consumer_offsets"))
    assert await delete(node, ("a", 0, 5), ("__consumer_offsets", 0, 0)) == [
        ("a", 0, -1, 6),
        ("__consumer_offsets", 0, -1, 17),
    ]


async def test_a_log_that_cannot_move_its_start_returns_an_error() -> None:
    node = node_with_records()
    node.replicas.partitions["a", 0].log.error = StorageError()
    assert await delete(node, ("a", 0, 5)) == [("a", 0, -1, 56)]


async def test_a_log_start_that_is_not_durable_is_not_acknowledged() -> None:
    node = node_with_records()
    node.store.log_starts.error = OSError(28, "no room")
    assert await delete(node, ("a", 0, 5), ("b", 0, 0)) == [("a", 0, -1, 56), ("b", 0, -1, 3)]


async def test_records_acknowledged_before_they_are_durable_can_be_deleted() -> None:
    node = node_with_records()
    partition = node.replicas.partitions["a", 0]
    partition.parked = []
    answer = asyncio.create_task(delete(node, ("a", 0, 10)))
    await asyncio.sleep(0)
    partition.high_watermark = 10
    (done,) = partition.parked
    done(0)
    assert await answer == [("a", 0, 10, 0)]


class Lagging(FakePartition):
    """A partition with a follower that has not moved its log start yet."""

    replica_start = 2

    @property
    def low_watermark(self) -> int:
        return min(self.replica_start, self.log.start_offset)


async def lagging() -> tuple[FakeNode, Lagging, Any]:
    """Return a deletion that waits for a replica."""
    node = node_with_records()
    held = node.replicas.partitions["a", 0]
    partition = Lagging("a", log=held.log, high_watermark=9)
    node.replicas.put(partition)
    answer = asyncio.ensure_future(delete(node, ("a", 0, 5)))
    await node.clock.awaited.wait()
    assert not answer.done()
    return node, partition, answer


async def test_the_response_waits_until_every_replica_has_moved_its_start() -> None:
    node, partition, answer = await lagging()
    partition.replica_start = 5
    node.clock.ring()
    assert await answer == [("a", 0, 5, 0)]


async def test_a_leader_that_is_replaced_meanwhile_returns_an_error() -> None:
    node, partition, answer = await lagging()
    partition.is_leader = False
    node.clock.ring()
    assert await answer == [("a", 0, -1, 6)]


async def test_a_replica_that_does_not_follow_in_time_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    node, _, answer = await lagging()
    monkeypatch.setattr(node.clock, "monotonic", lambda: 31.0)
    node.clock.ring()
    assert await answer == [("a", 0, 2, 7)]
