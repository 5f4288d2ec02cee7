"""Produce through its handler, on real replicas."""

from typing import Any
from uuid import UUID

import pytest

from penstock.handlers.produce import ParkedProduce
from penstock.handlers.support.reply import NO_REPLY
from penstock.handlers.support.transaction_verification import CloseConnection
from penstock.metadata.records import PartitionRecord, TopicRecord
from penstock.model.ids import NodeId
from penstock.wire.api import APIS, ApiKey
from penstock.wire.compression import Codec
from tests.unit.handlers.hot import batch, leader, produce, produced, replicated, reply_of
from tests.unit.replication.replicated_partition import TOPIC, ReplicatedPartition

UNKNOWN_SERVER_ERROR, CORRUPT_MESSAGE, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER, TIMED_OUT = -1, 2, 3, 6, 7
MESSAGE_TOO_LARGE, INVALID_TOPIC, NOT_ENOUGH_REPLICAS, INVALID_REQUIRED_ACKS = 10, 17, 19, 21
OUT_OF_ORDER_SEQUENCE, UNSUPPORTED_COMPRESSION, INVALID_RECORD, UNKNOWN_TOPIC_ID = 45, 76, 87, 100
VERSIONS = range(APIS[ApiKey.PRODUCE].accepted_from, APIS[ApiKey.PRODUCE].max_version + 1)


@pytest.mark.parametrize("version", VERSIONS)
async def test_offsets_are_consecutive(version: int) -> None:
    async with replicated() as world:
        first = produced(produce(leader(world), (0, batch(b"a", b"b")), version=version), version)
        second = produced(produce(leader(world), (0, batch(b"c")), version=version), version)
        assert [(int(row.error_code), row.base_offset) for row in (first, second)] == [(0, 0), (0, 2)]
        assert leader(world).values() == {0: b"a", 1: b"b", 2: b"c"}
        assert leader(world).partition.messages_in == 3


@pytest.mark.parametrize(
    ("index", "fields", "version", "error"),
    [
        (9, {}, 12, UNKNOWN_TOPIC_OR_PARTITION),
        (-1, {}, 12, UNKNOWN_TOPIC_OR_PARTITION),
        (0, {"topic": "nope"}, 12, UNKNOWN_TOPIC_OR_PARTITION),
        (9, {}, 13, UNKNOWN_TOPIC_OR_PARTITION),
        (0, {"topic_id": UUID(int=5)}, 13, UNKNOWN_TOPIC_ID),
    ],
)
async def test_an_unknown_partition_is_refused(index: int, fields: dict[str, Any], version: int, error: int) -> None:
    async with replicated() as world:
        row = produced(produce(leader(world), (index, batch()), version=version, **fields), version)
        assert (int(row.error_code), row.base_offset) == (error, -1)
        assert leader(world).context.metrics.failed_produces.value == 1


async def test_internal_topics_cannot_be_written_to() -> None:
    async with replicated() as world:
        topic_id = UUID(int=77)
        directory = leader(world).store.directory_id
        fields: dict[str, Any] = {"leader_epoch": 0, "partition_epoch": 0, "directories": (directory,)}
        world.commit(
            TopicRecord(name="__consumer_offsets", topic_id=topic_id),
            PartitionRecord(partition_id=0, topic_id=topic_id, replicas=(1,), isr=(1,), leader=1, **fields),
        )
        await world.settle()
        row = produced(produce(leader(world), (0, batch()), topic="__consumer_offsets"))
        assert int(row.error_code) == INVALID_TOPIC


@pytest.mark.parametrize("acks", [2, -2, 127])
async def test_other_values_of_acks_are_refused(acks: int) -> None:
    async with replicated() as world:
        reply = reply_of("produce", 12, produce(leader(world), (0, batch()), (1, batch()), acks=acks))
        rows = reply.responses[0].partition_responses
        assert [(row.index, int(row.error_code)) for row in rows] == [
            (0, INVALID_REQUIRED_ACKS),
            (1, INVALID_REQUIRED_ACKS),
        ]
        assert leader(world).partition.log.end_offset == 0


def damaged(records: bytes) -> bytes:
    return records[:-1] + bytes([records[-1] ^ 1])


@pytest.mark.parametrize(
    ("records", "version", "error"),
    [
        (None, 12, INVALID_RECORD),
        (b"", 12, INVALID_RECORD),
        (batch()[:60], 12, INVALID_RECORD),
        (damaged(batch()), 12, CORRUPT_MESSAGE),
        (batch() + batch(), 12, INVALID_RECORD),
        (batch(b"x" * 2000), 12, MESSAGE_TOO_LARGE),
        (batch(codec=Codec.ZSTD), 6, UNSUPPORTED_COMPRESSION),
        (batch(codec=Codec.ZSTD), 7, 0),
        (batch(codec=Codec.GZIP), 3, 0),
        (batch(producer_id=5, producer_epoch=0, base_sequence=3), 12, 0),
    ],
)
async def test_a_batch_is_checked_before_it_is_written(records: bytes | None, version: int, error: int) -> None:
    async with replicated() as world:
        world.configure("max.message.bytes", "1000")
        await world.settle()
        row = produced(produce(leader(world), (0, records), version=version), version)
        assert int(row.error_code) == error
        assert leader(world).partition.log.end_offset == (0 if error else 1)


async def test_a_duplicate_batch_gets_its_first_offset_and_a_gap_is_refused() -> None:
    async with replicated() as world:
        sent = [batch(producer_id=5, producer_epoch=0, base_sequence=each) for each in (0, 1, 0, 3)]
        rows = [produced(produce(leader(world), (0, each))) for each in sent]
        assert [(int(row.error_code), row.base_offset) for row in rows] == [
            (0, 0),
            (0, 1),
            (0, 0),
            (OUT_OF_ORDER_SEQUENCE, -1),
        ]


async def test_an_invalid_partition_does_not_affect_the_others() -> None:
    async with replicated() as world:
        reply = reply_of("produce", 12, produce(leader(world), (9, batch()), (0, batch())))
        rows = reply.responses[0].partition_responses
        assert [(row.index, int(row.error_code)) for row in rows] == [(9, UNKNOWN_TOPIC_OR_PARTITION), (0, 0)]


async def test_an_unexpected_error_is_an_unknown_server_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async with replicated() as world:

        def fail(*_: Any, **__: Any) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr(type(leader(world).partition), "append", fail)
        assert int(produced(produce(leader(world), (0, batch()))).error_code) == UNKNOWN_SERVER_ERROR


async def test_acks_0_gets_no_reply_and_an_error_closes_the_connection() -> None:
    async with replicated() as world:
        assert produce(leader(world), (0, batch()), acks=0) == NO_REPLY
        assert leader(world).partition.log.end_offset == 1
        with pytest.raises(CloseConnection):
            produce(leader(world), (9, batch()), acks=0)


# -- acks=all --------------------------------------------------------------------------------


async def waiting(world: ReplicatedPartition) -> ParkedProduce:
    """Return a write that the followers cannot fetch."""
    world.network.cut = {(1, 2), (1, 3)}
    parked = produce(leader(world), (0, batch()), acks=-1)
    assert isinstance(parked, ParkedProduce)
    assert parked.parts is None
    return parked


async def test_acks_all_waits_for_the_in_sync_replicas() -> None:
    async with replicated() as world:
        parked = await waiting(world)
        world.network.cut.clear()
        await world.settle(seconds=0.5)
        row = produced(parked)
        assert (int(row.error_code), row.base_offset) == (0, 0)
        assert world.nodes[NodeId(2)].values() == world.nodes[NodeId(3)].values() == {0: b"v"}


async def test_acks_all_times_out() -> None:
    async with replicated() as world:
        parked = await waiting(world)
        await world.settle(seconds=1.2)
        row = produced(parked)
        assert (int(row.error_code), row.base_offset) == (TIMED_OUT, -1)


async def test_acks_all_is_refused_when_leadership_moves() -> None:
    async with replicated() as world:
        parked = await waiting(world)
        world.elect(2)
        world.deliver()
        row = produced(parked)
        assert (int(row.error_code), row.base_offset) == (NOT_LEADER, -1)
        assert row.current_leader.leader_id == 2


async def test_acks_all_is_refused_before_the_append_with_too_few_in_sync_replicas() -> None:
    async with replicated(min_isr=2) as world:
        world.elect(1, isr=(1,))
        world.deliver()
        row = produced(produce(leader(world), (0, batch()), acks=-1))
        assert int(row.error_code) == NOT_ENOUGH_REPLICAS
        assert leader(world).partition.log.end_offset == 0
        assert int(produced(produce(leader(world), (0, batch()), acks=1)).error_code) == 0


# -- on another node ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", [9, 10, 12, 13])
async def test_a_producer_at_the_wrong_node_gets_the_leader_and_its_address(version: int) -> None:
    async with replicated() as world:
        reply = reply_of("produce", version, produce(world.nodes[NodeId(3)], (0, batch()), version=version))
        (row,) = reply.responses[0].partition_responses
        assert int(row.error_code) == NOT_LEADER
        if version >= 10:
            assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (1, 0)
            assert [(each.node_id, each.host, each.port) for each in reply.node_endpoints] == [(1, "node1", 1)]


async def test_a_replica_that_could_not_be_opened_is_a_storage_error() -> None:
    async with replicated() as world:
        replicas: Any = leader(world).replicas
        replicas.by_name.pop(TOPIC.encode())
        assert int(produced(produce(leader(world), (0, batch()))).error_code) == 56
