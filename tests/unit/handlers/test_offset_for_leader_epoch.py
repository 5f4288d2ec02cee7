"""OffsetForLeaderEpoch through its handler."""

import pytest
from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

from penstock.handlers import offset_for_leader_epoch
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeLog, FakeNode, FakePartition
from tests.unit.handlers.requests import node_with_records


async def ask_epoch(node: FakeNode, index: int, current: int, epoch: int, *, version: int = 4) -> tuple[int, int, int]:
    partition = OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch)  # type: ignore[arg-type]
    topic = OffsetForLeaderTopic(topic="a", partitions=(partition,))  # type: ignore[arg-type]
    body = OffsetForLeaderEpochRequest(topics=(topic,))
    reply = await node.ask(offset_for_leader_epoch.handle, ApiKey.OFFSET_FOR_LEADER_EPOCH, body, version=version)
    answer = reply.topics[0].partitions[0]
    return answer.error_code, answer.leader_epoch, answer.end_offset


@pytest.mark.parametrize(
    ("index", "current", "epoch", "answer"),
    [
        (0, -1, 3, (0, 3, 10)),
        (0, 3, 1, (0, 0, 5)),
        (0, -1, 4, (0, -1, -1)),
        (0, -1, -1, (0, -1, -1)),
        (0, 2, 0, (74, -1, -1)),
        (0, 4, 0, (75, -1, -1)),
        (7, -1, 0, (3, -1, -1)),
    ],
)
async def test_an_epoch_ends_where_the_next_one_began(
    index: int, current: int, epoch: int, answer: tuple[int, int, int]
) -> None:
    for version in (2, 3, 4):
        assert await ask_epoch(node_with_records(), index, current, epoch, version=version) == answer


async def test_an_epoch_in_which_nothing_was_written_ends_at_the_end_of_the_log() -> None:
    """ListOffsets returns such an epoch with the position of a consumer that waits for the first record."""
    node = FakeNode()
    node.replicas.put(FakePartition("a", log=FakeLog(end_offset=10), leader_epoch=7, high_watermark=10))
    assert await ask_epoch(node, 0, 7, 5) == (0, 5, 10)
    assert await ask_epoch(node, 0, 7, 7) == (0, 7, 10)
    assert await ask_epoch(node, 0, 7, 8) == (0, -1, -1)
