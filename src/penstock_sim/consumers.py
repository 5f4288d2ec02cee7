"""Consumers that read whole partitions, and the decoding of batches.

`read_batches` decodes batches, values and markers; `hide_aborted` then removes the records that a read_committed
consumer must not see, as Kafka's consumers do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from penstock.model.errors import Refusal
from penstock.storage.marker import read_marker
from penstock.wire.api import ApiKey
from penstock.wire.batch import LOG_OVERHEAD, BatchHeader
from penstock.wire.records import decode_batch
from penstock_sim.client import Client, Lost, Shared, Unavailable, seconds
from penstock_sim.history import Batch, Listed, PartitionId, Poll, View

FETCH_VERSION = 17
LIST_VERSION = 10
OUT_OF_RANGE = 1
EARLIEST, LATEST = -2, -1
READ_BACK_S_MAX = 60.0
STORAGE_ERROR = 56
PAUSE_S = 0.8
REFUSED_S_MAX = 5.0
"""A partition that healed nodes reject for this long is considered damaged. Before, a leader that cannot read its log
for two seconds hands over to another replica."""


def read_batches(data: bytes) -> list[Batch]:
    """Decode every complete batch; the last may be truncated. Raises the codec's error if a checksum fails."""
    found = []
    view = memoryview(data)
    position = 0
    while position + 61 <= len(data):
        size = int.from_bytes(view[position + 8 : position + 12], "big", signed=True) + LOG_OVERHEAD
        if position + size > len(data):
            break
        one = view[position : position + size]
        header = BatchHeader.at(one)
        marker = read_marker(one) if header.is_control else None
        records = decode_batch(one)
        values = () if header.is_control else tuple((each.offset, each.value or each.key or b"") for each in records)
        found.append(
            Batch(
                header.base_offset,
                header.last_offset,
                header.leader_epoch,
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.is_transactional,
                None if marker is None else marker.commit,
                values,
            )
        )
        position += size
    return found


def hide_aborted(batches: Iterable[Batch], aborted: Iterable[tuple[int, int]]) -> list[tuple[int, bytes]]:
    """Return the records of a fetched range that belong to no aborted transaction."""
    waiting = sorted(aborted, key=lambda each: each[1])
    hidden: set[int] = set()
    shown: list[tuple[int, bytes]] = []
    for batch in batches:
        while waiting and waiting[0][1] <= batch.last_offset:
            hidden.add(waiting.pop(0)[0])
        if batch.marker is not None:
            if batch.marker is False:
                hidden.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in hidden):
            shown.extend(batch.values)
    return shown


def fetch_fields(
    partition_id: PartitionId, position: int, *, epoch: int, committed_only: bool, wait_s: float
) -> dict[str, Any]:
    return {
        "max_wait": seconds(wait_s),
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": int(committed_only),
        "topics": [
            {
                "topic_id": UUID(partition_id.topic_id),
                "partitions": [
                    {
                        "partition": partition_id.partition_index,
                        "current_leader_epoch": epoch,
                        "fetch_offset": position,
                        "partition_max_bytes": 1 << 16,
                    }
                ],
            }
        ],
    }


async def list_offset(client: Client, topic: str, partition: int, timestamp: int, *, committed_only: bool) -> int:
    """Return the earliest or latest offset; -1 on an error response. Raises Lost or Unavailable."""
    address, epoch, partition_id = await client.leader_of(topic, partition)
    began = client.now
    reply = await client.ask(
        address,
        ApiKey.LIST_OFFSETS,
        LIST_VERSION,
        replica_id=-1,
        isolation_level=int(committed_only),
        topics=[
            {
                "name": topic,
                "partitions": [{"partition_index": partition, "current_leader_epoch": epoch, "timestamp": timestamp}],
            }
        ],
    )
    (found,) = reply.topics[0].partitions
    if int(found.error_code):
        return -1
    client.history.listed.append(
        Listed(client.name, partition_id, timestamp, committed_only, found.offset, began, client.now, epoch)
    )
    return int(found.offset)


class Consumer(Client):
    """A consumer that reads some partitions from the beginning, one fetch after another."""

    def __init__(
        self,
        shared: Shared,
        name: str,
        *,
        partitions: Sequence[tuple[str, int]],
        committed_only: bool,
        wait_s: float = 0.5,
    ) -> None:
        super().__init__(shared, name)
        self._partitions = list(partitions)
        self.committed_only = committed_only
        self._wait_s = wait_s
        self.positions: dict[PartitionId, int] = {}
        self._at: dict[tuple[str, int], PartitionId] = {}
        self.failed: dict[tuple[str, int], int] = {}

    async def run(self) -> None:
        turn = 0
        while not self.stopping:
            topic, partition = self._partitions[turn % len(self._partitions)]
            turn += 1
            try:
                await self.poll(topic, partition)
                await self.sleep(self.random.random() * PAUSE_S)
                if self.random.random() < 0.05:
                    timestamp = self.random.choice((EARLIEST, LATEST, LATEST))
                    await list_offset(self, topic, partition, timestamp, committed_only=self.committed_only)
            except (Lost, Unavailable):
                self.forget(topic)
                await self.backoff()

    async def poll(self, topic: str, partition: int) -> Poll | None:
        """Fetch one partition once. Raises Lost or Unavailable."""
        address, epoch, partition_id = await self.leader_of(topic, partition)
        position = self.positions.get(partition_id, 0)
        began = self.now
        reply = await self.ask(
            address,
            ApiKey.FETCH,
            FETCH_VERSION,
            **fetch_fields(
                partition_id, position, epoch=epoch, committed_only=self.committed_only, wait_s=self._wait_s
            ),
        )
        if int(reply.error_code) or not reply.responses:
            self.forget(topic)
            await self.backoff()
            return None
        (answer,) = reply.responses[0].partitions
        code = int(answer.error_code)
        self.failed[topic, partition] = code
        if code == OUT_OF_RANGE:
            earliest = await list_offset(self, topic, partition, EARLIEST, committed_only=False)
            if earliest >= 0:
                self.positions[partition_id] = earliest
            return None
        if code:
            self.forget(topic)
            await self.backoff()
            return None
        return self._take(partition_id, position, answer, began, epoch)

    def _take(self, partition_id: PartitionId, position: int, answer: Any, began: float, epoch: int) -> Poll:
        try:
            batches = read_batches(bytes(answer.records or b""))
        except Refusal as refusal:
            self.complain(f"inv_45: {partition_id} received bytes that are not batches: {refusal}")
            batches = []
        if self.committed_only:
            aborted = [(int(each.producer_id), each.first_offset) for each in answer.aborted_transactions or ()]
            records = hide_aborted(batches, aborted)
        else:
            records = [record for batch in batches for record in batch.values]
        shown = tuple(record for record in records if record[0] >= position)
        next_position = max([position, *(batch.last_offset + 1 for batch in batches)])
        poll = Poll(
            self.name,
            partition_id,
            self.committed_only,
            position,
            next_position,
            shown,
            answer.high_watermark,
            answer.last_stable_offset,
            answer.log_start_offset,
            began,
            self.now,
            epoch,
        )
        self.history.polls.append(poll)
        self.positions[partition_id] = next_position
        self._batches = batches
        return poll

    def last_batches(self) -> list[Batch]:
        return self._batches


async def read_back(shared: Shared, name: str, topic: str, partition: int) -> View:
    """Read a whole partition with new consumers: all records and the committed ones."""
    deadline = shared.loop.now + READ_BACK_S_MAX
    every = Consumer(shared, f"{name}.all", partitions=[(topic, partition)], committed_only=False, wait_s=0.0)
    batches, partition_id, last, code = await _read_all(every, topic, partition, deadline)
    committed: dict[int, bytes] = {}
    if not code:
        reader = Consumer(shared, f"{name}.committed", partitions=[(topic, partition)], committed_only=True, wait_s=0.0)
        before = len(shared.history.polls)
        _, _, _, code = await _read_all(reader, topic, partition, deadline)
        for poll in shared.history.polls[before:]:
            if poll.client == reader.name:
                committed.update(poll.records)
    start = last.log_start if last else 0
    return View(
        partition_id,
        start,
        last.high_watermark if last else -1,
        last.last_stable_offset if last else -1,
        batches,
        committed,
        code,
    )


async def _read_all(
    reader: Consumer, topic: str, partition: int, deadline: float
) -> tuple[list[Batch], PartitionId, Poll | None, int]:
    batches: list[Batch] = []
    partition_id = PartitionId(topic, "", partition)
    poll: Poll | None = None
    refused_since: float | None = None
    while reader.now < deadline:
        try:
            _, _, partition_id = await reader.leader_of(topic, partition)
            last = await reader.poll(topic, partition)
        except (Lost, Unavailable):
            reader.forget(topic)
            await reader.backoff()
            continue
        if last is None:
            if reader.failed.get((topic, partition)) == STORAGE_ERROR:
                refused_since = reader.now if refused_since is None else refused_since
                if reader.now - refused_since > REFUSED_S_MAX:
                    break
            continue
        refused_since = None
        poll = last
        found = reader.last_batches()
        batches.extend(found)
        end = poll.last_stable_offset if reader.committed_only else poll.high_watermark
        # A damaged log may end where its damage begins: only a fetch from there is rejected.
        if poll.next_position >= end and not found:
            return batches, partition_id, poll, 0
    return batches, partition_id, poll, reader.failed.get((topic, partition), 0) or -1
