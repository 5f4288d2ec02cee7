"""Dead-letter records of share groups (KIP-1191): one for each record that is rejected or was delivered too often.

A record that is to be archived stays in the state Archiving until its dead-letter record is committed; a failed write
is repeated until it succeeds or the leader changes, and the next leader resumes there. So a dead-letter record may be
duplicated, and is never lost. By default it only points to the source; with `copy.record.enable` it has its key,
value and headers too. Calls replication/partition.py, or through `Peers` handlers/produce.py of the leader's node.
Refuses: UnknownTopicOrPartition, LeaderNotAvailable, and what a write refuses; the caller retries.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final, cast

from penstock.client.interfaces import Peers, PeerUnavailable
from penstock.metadata.image import Image
from penstock.model.errors import (
    NO_ERROR,
    LeaderNotAvailable,
    Refusal,
    UnknownTopicOrPartition,
)
from penstock.model.ids import NO_NODE, NodeId, TopicName
from penstock.ports.clock import Clock
from penstock.replication.partition import ALL_REPLICAS, Partition
from penstock.replication.replicas import Replicas
from penstock.replication.waiting import WaitingProduce
from penstock.shares.flight_ranges import FlightRange
from penstock.shares.settings import ShareSettings
from penstock.shares.states import SharePartitionKey
from penstock.wire.api import ApiKey
from penstock.wire.batch import iter_batches
from penstock.wire.records import Record, decode_batch, encode_batch

PREFIX: Final = "__dlq.errors."
LETTERS_PER_BATCH: Final = 200
TIMEOUT_S: Final = 30.0
PURPOSE: Final = "dead-letters"
READ_SIZE: Final = 1024 * 1024


class LetterWriter:
    def __init__(
        self, *, node_id: NodeId, image: Callable[[], Image], peers: Peers, replicas: Replicas, clock: Clock
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._peers = peers
        self._replicas = replicas
        self._clock = clock

    async def write(self, topic_name: str, index: int, letters: Sequence[Record]) -> None:
        """Write dead-letter records; return when they are committed."""
        name = TopicName(topic_name)
        topic = self._image().topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"The dead-letter topic {topic_name} does not exist.")
        index %= len(topic.partitions)
        leader = topic.partitions[index].leader
        if leader == NO_NODE:
            raise LeaderNotAvailable
        batch = encode_batch(letters)
        if leader != self._node_id:
            await self._send(leader, topic.id, index, batch)
            return
        partition = self._replicas.find(name, index)
        if partition is None:
            raise LeaderNotAvailable
        await self._append(partition, batch)

    async def _append(self, partition: Partition, batch: bytes) -> None:
        appended = partition.append(
            memoryview(bytearray(batch)), acks=ALL_REPLICAS, now_ms=self._clock.wall_ms(), trusted=True
        )
        committed: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if appended.last_offset < partition.high_watermark:
            return
        deadline = self._clock.monotonic() + TIMEOUT_S
        partition.wait_durable(
            WaitingProduce(
                appended.last_offset + 1,
                deadline,
                lambda code: None if committed.done() else committed.set_result(code),
            )
        )
        code = await committed
        if code != NO_ERROR:
            raise Refusal(f"the dead-letter records may not be committed: error code {code}")

    async def _send(self, leader: NodeId, topic_id: object, index: int, batch: bytes) -> None:
        from kio.schema.produce.v13.request import PartitionProduceData, ProduceRequest, TopicProduceData

        partition = PartitionProduceData(index=cast(Any, index), records=cast(Any, batch))
        request = ProduceRequest(
            transactional_id=None,
            acks=cast(Any, ALL_REPLICAS),
            timeout=cast(Any, timedelta(seconds=TIMEOUT_S)),
            topic_data=(TopicProduceData(topic_id=cast(Any, topic_id), partition_data=(partition,)),),
        )
        try:
            answer = await self._peers.ask(leader, ApiKey.PRODUCE, request, timeout_s=TIMEOUT_S, purpose=PURPOSE)
        except PeerUnavailable:
            raise LeaderNotAvailable from None
        code = answer.responses[0].partition_responses[0].error_code.value
        if code:
            raise Refusal(f"node {leader} answered with error code {code}")


def letters_of(
    key: SharePartitionKey,
    partition: Partition,
    each: FlightRange,
    offsets: range,
    settings: ShareSettings,
    *,
    now_ms: int,
) -> list[Record]:
    """Return the dead-letter records of some offsets of a range."""
    sources = _records(partition, offsets) if settings.copies_dead_letters else {}
    is_at_limit = each.count >= settings.delivery_count_limit
    message = "The delivery count limit was reached." if is_at_limit else "The record was rejected."
    letters = []
    for offset in offsets:
        about = {
            "topic": partition.topic,
            "partition": str(key.partition),
            "offset": str(offset),
            "group": key.group,
            "delivery.count": str(each.count),
            "message": message,
        }
        headers = tuple(((PREFIX + name).encode(), text.encode()) for name, text in about.items())
        source = sources.get(offset)
        if source is None:
            letters.append(Record(timestamp=now_ms, headers=headers))
        else:
            letters.append(source._replace(offset=-1, timestamp=now_ms, headers=(*source.headers, *headers)))
    return letters


def _records(partition: Partition, offsets: range) -> dict[int, Record]:
    """Return the source records that still exist."""
    found: dict[int, Record] = {}
    offset = offsets.start
    while offset < offsets.stop:
        try:
            read = partition.read(offset, max_bytes=READ_SIZE, committed_only=False, at_least_one=True)
        except Refusal:
            return found
        if read is None:
            return found
        data = read.file.read(read.size, read.position)
        before = offset
        for record in (record for batch in iter_batches(data) for record in decode_batch(batch)):
            if record.offset in offsets:
                found[record.offset] = record
            offset = max(offset, record.offset + 1)
        if offset == before:
            return found
    return found
