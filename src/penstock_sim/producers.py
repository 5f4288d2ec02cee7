"""Producers: plain ones that send each value once, and idempotent ones that retry until they know the result.

An idempotent producer keeps up to five batches of a partition in flight, in order, and after any error sends all
unacknowledged ones again, in order. A batch that it gives up ends as `info`, and it continues with a new producer id,
as Kafka's clients do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from penstock.wire.api import ApiKey
from penstock.wire.codecs import Codec
from penstock.wire.records import Record, encode_batch
from penstock_sim.client import STALE_LEADER, Client, Link, Lost, Shared, Unavailable, seconds
from penstock_sim.clock import WALL_START_MS
from penstock_sim.history import FAIL, INFO, KEY_SIZE, OK, PartitionId, Send

PRODUCE_VERSION = 13
DELIVERY_S_MAX = 40.0
OUT_OF_ORDER = 45
DUPLICATE_SEQUENCE = 46
NEVER_WRITTEN = frozenset({2, 10, 19, 21, 35, 42, 45, 47, 48, 49, 51, 53, 74, 75, 76, 87, 90, 120})
"""Errors returned before anything is written. 6 and 56 are also returned after a write: the result is unknown."""


def batch_of(send: Send, *, transactional: bool = False, codec: int = Codec.NONE) -> bytes:
    now = WALL_START_MS + int(send.began * 1000)
    return encode_batch(
        [
            Record(timestamp=now, key=value[:KEY_SIZE], value=None if len(value) == KEY_SIZE else value)
            for value in send.values
        ],
        producer_id=send.producer_id,
        producer_epoch=send.producer_epoch,
        base_sequence=send.sequence,
        is_transactional=transactional,
        codec=codec,
    )


def produce_fields(
    partition_id: PartitionId, data: bytes, *, acks: int, transactional_id: str | None = None
) -> dict[str, Any]:
    from uuid import UUID

    return {
        "transactional_id": transactional_id,
        "acks": acks,
        "timeout": seconds(3),
        "topic_data": [
            {
                "topic_id": UUID(partition_id.topic_id),
                "partition_data": [{"index": partition_id.partition_index, "records": data}],
            }
        ],
    }


def result_of(reply: Any) -> tuple[int, int]:
    """Return the error code and the base offset."""
    (partition,) = reply.responses[0].partition_responses
    return int(partition.error_code), int(partition.base_offset)


class Values:
    """A source of unique values."""

    def __init__(self, client: Client, size_max: int) -> None:
        self._client = client
        self._size_max = size_max
        self._count = 0

    def take(self, count: int) -> tuple[bytes, ...]:
        made = []
        for _ in range(count):
            self._count += 1
            pad = int(self._client.random.random() ** 4 * self._size_max)
            made.append(f"{self._client.name}.{self._count}".encode() + b"." + b"x" * pad)
        return tuple(made)


class PlainProducer(Client):
    """A producer that sends each batch once, without retries."""

    def __init__(
        self,
        shared: Shared,
        name: str,
        *,
        partitions: Sequence[tuple[str, int]],
        acks: int,
        pause_s: float,
        values: type[Values] = Values,
    ) -> None:
        super().__init__(shared, name)
        self._partitions = partitions
        self._acks = acks
        self._pause_s = pause_s
        self._values = values(self, 300)
        self.acked_at = 0.0

    async def run(self) -> None:
        while not self.stopping:
            await self.sleep(self.random.random() * 2 * self._pause_s)
            topic, partition = self.random.choice(self._partitions)
            try:
                address, epoch, partition_id = await self.leader_of(topic, partition)
                link = await self.link_to(address)
            except (Lost, Unavailable):
                self.forget(topic)
                await self.backoff()
                continue
            send = Send(self.name, partition_id, self._values.take(self.random.randrange(1, 4)), self._acks, self.now)
            send.leader_epoch = epoch
            self.history.sends.append(send)
            await self._send(send, link, address)
            send.ended = self.now
            if send.outcome != OK:
                self.forget(topic)
                await self.backoff()

    async def _send(self, send: Send, link: Link, address: tuple[str, int]) -> None:
        send.attempts = 1
        fields = produce_fields(send.partition, batch_of(send), acks=self._acks)
        if self._acks == 0:
            self.fire_and_forget(link, ApiKey.PRODUCE, PRODUCE_VERSION, **fields)
            return
        try:
            reply = await self.ask_on(link, address, ApiKey.PRODUCE, PRODUCE_VERSION, **fields)
        except Lost:
            return
        send.code, offset = result_of(reply)
        if send.code == 0:
            send.outcome, send.offset = OK, offset
            self.acked_at = self.now
        elif send.code in NEVER_WRITTEN:
            send.outcome = FAIL


class IdempotentProducer(Client):
    def __init__(
        self,
        shared: Shared,
        name: str,
        *,
        partitions: Sequence[tuple[str, int]],
        pause_s: float,
        in_flight: int,
        values: type[Values] = Values,
        codec: int = Codec.NONE,
    ) -> None:
        super().__init__(shared, name)
        self._codec = codec
        self._partitions = partitions
        self._pause_s = pause_s
        self._in_flight = in_flight
        self._values = values(self, 300)
        self._producer: tuple[int, int] | None = None
        self._sequences: dict[PartitionId, int] = {}
        self._topic_by_turn = 0
        self.acked_at = 0.0

    async def run(self) -> None:
        while not self.stopping:
            await self.sleep(self.random.random() * 2 * self._pause_s)
            topic, partition = self.random.choice(self._partitions)
            try:
                await self._identify()
                _, _, partition_id = await self.leader_of(topic, partition)
            except (Lost, Unavailable):
                self.forget(topic)
                await self.backoff()
                continue
            if not await self._deliver(partition_id, self._make(partition_id)):
                # The result of the last batches is unknown: only a new producer id separates the next ones from them.
                self._producer = None

    async def _identify(self) -> None:
        if self._producer is None:
            address = self.random.choice([*self.addresses.values()] or self.shared.bootstrap)
            reply = await self.ask(
                address, ApiKey.INIT_PRODUCER_ID, 5, transactional_id=None, transaction_timeout=seconds(60)
            )
            if int(reply.error_code):
                raise Unavailable(f"no producer id: {reply.error_code}")
            self._producer = (int(reply.producer_id), reply.producer_epoch)
            self._sequences.clear()

    def _make(self, partition_id: PartitionId) -> list[Send]:
        assert self._producer is not None
        window = []
        for _ in range(self.random.randrange(1, self._in_flight + 1)):
            values = self._values.take(self.random.randrange(1, 4))
            sequence = self._sequences.get(partition_id, 0)
            self._sequences[partition_id] = sequence + len(values)
            send = Send(
                self.name,
                partition_id,
                values,
                -1,
                self.now,
                idempotent=True,
                producer_id=self._producer[0],
                producer_epoch=self._producer[1],
                sequence=sequence,
            )
            self.history.sends.append(send)
            window.append(send)
        return window

    async def _deliver(self, partition_id: PartitionId, window: list[Send]) -> bool:
        """Send until all are acknowledged; return False on a timeout or an error."""
        deadline = self.now + DELIVERY_S_MAX
        left = window
        while left and self.now < deadline:
            try:
                address, epoch, now_at = await self.leader_of(partition_id.topic, partition_id.partition_index)
                if now_at != partition_id:
                    break
                link = await self.link_to(address)
            except (Lost, Unavailable):
                self.forget(partition_id.topic)
                await self.backoff()
                continue
            for send in left:
                send.leader_epoch = epoch
            answers = [self._post(link, address, send) for send in left]
            await asyncio.wait(answers)
            # Record every response, even after one that invalidates the producer id.
            ended = [self._note(send, answer) for send, answer in zip(left, answers, strict=True)]
            if any(ended):
                break
            left = [send for send in left if send.outcome != OK]
            if left:
                self.forget(partition_id.topic)
                await self.backoff()
        for send in left:
            send.ended = min(send.ended, self.now)
        return not left

    def _post(self, link: Link, address: tuple[str, int], send: Send) -> asyncio.Future[Any]:
        send.attempts += 1
        fields = produce_fields(send.partition, batch_of(send, codec=self._codec), acks=-1)
        return self.ask_on(link, address, ApiKey.PRODUCE, PRODUCE_VERSION, may_be_late=True, **fields)

    def _note(self, send: Send, answer: asyncio.Future[Any]) -> bool:
        """Record a response; return True if it invalidates the producer id."""
        if answer.exception() is not None:
            return False
        send.code, offset = result_of(answer.result())
        if send.code in (0, DUPLICATE_SEQUENCE):
            send.outcome, send.ended = OK, self.now
            send.offset = offset if send.code == 0 else -1
            self.acked_at = self.now
            return False
        if send.code in STALE_LEADER or send.code in (7, 19, 20, 56, 51):
            return False
        if send.code == OUT_OF_ORDER:
            # After a rejected batch this is only a consequence.
            return False
        if send.code in NEVER_WRITTEN and send.attempts == 1:
            send.outcome = FAIL
        else:
            send.outcome = INFO
        return True
