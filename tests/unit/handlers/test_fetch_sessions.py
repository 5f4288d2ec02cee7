"""Fetch sessions with many partitions: only those with news are read, and none is missed."""

from random import Random
from typing import Any

import pytest

from penstock.handlers import fetch as fetch_module
from penstock.metadata.records import PartitionRecord
from penstock.model.ids import NodeId, PartitionIndex
from penstock.replication.partition import Partition
from tests.unit.handlers.hot import batch, fetch, fetched, leader, produce, replicated, reply_of
from tests.unit.replication.replicated_partition import TOPIC_ID, ReplicatedPartition

COUNT = 6
ALONE = (NodeId(1),)
OFFSET_OUT_OF_RANGE = 1


async def with_partitions(world: ReplicatedPartition, count: int = COUNT) -> None:
    """Add partitions, which only node 1 hosts, to the replicated one."""
    for index in range(1, count):
        world.commit(
            PartitionRecord(
                partition_id=PartitionIndex(index),
                topic_id=TOPIC_ID,
                replicas=ALONE,
                isr=ALONE,
                leader=NodeId(1),
                removing_replicas=(),
                adding_replicas=(),
                leader_epoch=0,
                partition_epoch=0,
                directories=(leader(world).store.directory_id,),
            )
        )
    await world.settle()


class Reader:
    """A consumer with a session. It names a partition again when its position has moved."""

    def __init__(self, world: ReplicatedPartition, count: int = COUNT) -> None:
        self.world = world
        self.positions = dict.fromkeys(range(count), 0)
        self.session_id = self.epoch = 0
        self._named: dict[int, int] = {}

    def send(self, *, max_wait: int = 0, min_bytes: int = 1, max_bytes: int = 100_000) -> Any:
        moved = {index: offset for index, offset in self.positions.items() if self._named.get(index) != offset}
        self._named.update(moved)
        rows = [{"partition": index, "fetch_offset": offset} for index, offset in moved.items()]
        fields: dict[str, Any] = {} if rows else {"topics": []}
        reply = fetch(
            leader(self.world), *rows, session_id=self.session_id, session_epoch=self.epoch,
            max_wait=max_wait, min_bytes=min_bytes, max_bytes=max_bytes, **fields,
        )  # fmt: skip
        if hasattr(reply, "on_ready"):
            reply.on_ready = lambda: None
        self.epoch += 1
        return reply

    def take(self, reply: Any) -> dict[int, tuple[int, bytes]]:
        """Return error and records of each partition in a response, and move the positions behind the records."""
        whole = reply_of("fetch", 17, reply)
        assert int(whole.error_code) == 0
        self.session_id = whole.session_id
        rows = {row.partition_index: row for topic in whole.responses for row in topic.partitions}
        found = {}
        for index, row in rows.items():
            records = bytes(row.records or b"")
            found[index] = (int(row.error_code), records)
            if int(row.error_code) == OFFSET_OUT_OF_RANGE:
                self.positions[index] = self.partition(index).log.start_offset
            elif records:
                self.positions[index] = _next_offset(records)
        return found

    def poll(self, **limits: int) -> dict[int, tuple[int, bytes]]:
        return self.take(self.send(**limits))

    def read_without_session(self) -> dict[int, tuple[int, bytes]]:
        """Return what fetches of single partitions at the current positions return, without empty responses."""
        found = {}
        for index, offset in self.positions.items():
            row = {"partition": index, "fetch_offset": offset}
            answer = fetched(fetch(leader(self.world), row, session_epoch=-1, max_bytes=100_000))
            if int(answer.error_code) or answer.records:
                found[index] = (int(answer.error_code), bytes(answer.records or b""))
        return found

    def partition(self, index: int) -> Partition:
        return leader(self.world).replicas.by_id[TOPIC_ID.bytes].partitions[index]


def _next_offset(records: bytes) -> int:
    last = 0
    while len(records) >= 61:
        size = 12 + int.from_bytes(records[8:12], "big")
        last = int.from_bytes(records[:8], "big") + int.from_bytes(records[23:27], "big") + 1
        records = records[size:]
    return last


async def write(world: ReplicatedPartition, *indexes: int, size: int = 1) -> None:
    for index in indexes:
        produce(leader(world), (index, batch(b"v" * size)))
    await world.settle(seconds=0.5)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("seed", range(15))
async def test_a_session_returns_what_a_fetch_of_all_partitions_returns(
    seed: int, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr(fetch_module, "LARGE_COUNT_MIN", 2)
    chance = Random(seed)
    async with replicated(syncs_at_once=False) as world:
        await with_partitions(world)
        reader = Reader(world)
        for _ in range(40):
            event = chance.random()
            index = chance.randrange(COUNT)
            if event < 0.6:
                await write(world, *chance.choices(range(COUNT), k=chance.randint(1, 4)))
            elif event < 0.7:
                partition = reader.partition(index)
                partition.delete_before(chance.randint(partition.log.start_offset, partition.high_watermark))
            elif event < 0.8:
                world.elect(chance.choice((1, 2)))
                await world.settle(seconds=0.5)
            elif event < 0.9:
                # A consumer may go back, and skip forward.
                reader.positions[index] = chance.randint(0, reader.partition(index).log.end_offset)
            expected = reader.read_without_session()
            waits = chance.random() < 0.3
            reply = reader.send(max_wait=200 if waits else 0)
            await world.settle(seconds=0.5)
            found = {each: row for each, row in reader.take(reply).items() if row != (0, b"")}
            assert found == expected


async def test_idle_partitions_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async with replicated(syncs_at_once=False) as world:
        await with_partitions(world)
        await write(world, *range(COUNT))
        reader = Reader(world)
        for _ in range(3):
            reader.poll()
        read: list[int] = []
        original = Partition.read

        def counted(partition: Partition, *arguments: Any, **options: Any) -> Any:
            read.append(partition.index)
            return original(partition, *arguments, **options)

        monkeypatch.setattr(Partition, "read", counted)
        assert reader.poll() == {} and read == []
        await write(world, 3)
        assert list(reader.poll()) == [3] and read == [3]


async def test_a_waiting_session_is_answered_by_any_of_its_partitions() -> None:
    async with replicated(syncs_at_once=False) as world:
        await with_partitions(world)
        reader = Reader(world)
        reader.poll()
        reader.poll()
        for index in (4, 0):
            parked = reader.send(max_wait=60_000)
            await world.settle(seconds=1)
            assert parked.parts is None
            await write(world, index)
            assert list(reader.take(parked)) == [index]


async def test_min_bytes_counts_the_bytes_of_all_partitions() -> None:
    async with replicated(syncs_at_once=False) as world:
        await with_partitions(world)
        reader = Reader(world)
        reader.poll()
        reader.poll()
        parked = reader.send(max_wait=60_000, min_bytes=600)
        for index in (1, 2, 2):
            await write(world, index, size=100)
            assert parked.parts is None
        await write(world, 3, size=100)
        assert sorted(reader.take(parked)) == [1, 2, 3]


async def test_a_partition_that_did_not_fit_comes_first_in_the_next_response() -> None:
    async with replicated(syncs_at_once=False) as world:
        await with_partitions(world)
        await write(world, *range(COUNT), size=200)
        reader = Reader(world)
        seen = [index for _ in range(COUNT) for index, row in reader.poll(max_bytes=1).items() if row[1]]
        assert sorted(seen) == list(range(COUNT))


async def test_another_fetch_of_the_session_answers_the_one_that_waits() -> None:
    async with replicated(syncs_at_once=False) as world:
        await with_partitions(world)
        reader = Reader(world)
        reader.poll()
        reader.poll()
        first, second = reader.send(max_wait=60_000), reader.send(max_wait=60_000)
        assert reader.take(first) == {} and second.parts is None
        await write(world, 5)
        assert list(reader.take(second)) == [5]


async def test_the_end_of_a_session_answers_the_fetch_that_waits() -> None:
    async with replicated(syncs_at_once=False) as world:
        await with_partitions(world)
        reader = Reader(world)
        reader.poll()
        reader.poll()
        parked = reader.send(max_wait=60_000)
        fetch(leader(world), session_id=reader.session_id, session_epoch=-1)
        assert reader.take(parked) == {}


async def test_a_session_without_a_client_receives_one_event_per_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    async with replicated(syncs_at_once=False) as world:
        await with_partitions(world)
        reader = Reader(world)
        for _ in range(3):
            reader.poll()
        events: list[int] = []
        sessions = leader(world).fetch.sessions
        session = sessions.find(_incremental(reader), by_id=True, now=0.0)
        assert session is not None
        cached = session.partitions[TOPIC_ID.bytes, 2]
        original = type(cached).more_bytes

        def counted(self: Any, size: int) -> None:
            events.append(size)
            original(self, size)

        monkeypatch.setattr(type(cached), "more_bytes", counted)
        for _ in range(3):
            await write(world, 2)
        assert len(events) == 1


def _incremental(reader: Reader) -> Any:
    from penstock.wire.hot.fetch import FetchRequest

    request = FetchRequest()
    request.session_id, request.session_epoch = reader.session_id, reader.epoch
    request.partitions, request.forgotten = [], []
    return request
