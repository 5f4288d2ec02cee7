"""A node that leads a topic with two partitions, with the real share leader and a share coordinator in memory."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from penstock.coordinator.decision import SharedDecision, Ticket
from penstock.model.errors import Refusal
from penstock.model.ids import NodeId, TopicIdPartition, TopicName
from penstock.replication.partition import ALL_REPLICAS, Partition
from penstock.scheduling.scheduler import Pace, Scheduler
from penstock.shares.commands import InitializeState, StateReply
from penstock.shares.leading import ShareLeader
from penstock.shares.led_partition import LedSharePartition
from penstock.shares.settings import ShareSettings
from penstock.shares.shard import ShareShard
from penstock.shares.states import AcknowledgementBatch, SharePartitionKey
from penstock_sim.disk import SimDisk
from tests.unit.coordinator.fakes import FakeClock
from tests.unit.storage.support import batch, open_log

TOPIC_ID = UUID(int=77)
KEY = SharePartitionKey("g", TOPIC_ID, 0)
LED = "g", TopicIdPartition(TOPIC_ID.bytes, 0)
"""The same share partition for the leader."""
TURNS = 30


class MemoryState:
    """The share coordinator, which answers immediately, not before `hold` is set, or with errors."""

    def __init__(self) -> None:
        self.shard = ShareShard()
        self.commands: list[Any] = []
        self.errors: list[int] = []
        self.hold: asyncio.Event | None = None
        self.is_here = False
        """Whether it answers on the same node, without a task."""
        self.held: list[Callable[[], None]] | None = None
        """Writes on the same node that wait for the test to call them, if it is a list."""

    @property
    def attempts(self) -> int:
        """How many errors an acknowledgement must meet to fail: after one on the same node, `ask` tries again."""
        return 1 + self.is_here

    def write(self, command: Any, done: Callable[[StateReply], None]) -> bool:
        if not self.is_here or self.hold is not None:
            return False
        self.commands.append(command)
        if self.held is None:
            done(self._reply(command))
        else:
            self.held.append(lambda: done(self._reply(command)))
        return True

    async def ask(self, command: Any, *, timeout_s: float = 5.0) -> StateReply:
        self.commands.append(command)
        if self.hold is not None:
            await self.hold.wait()
        return self._reply(command)

    def _reply(self, command: Any) -> StateReply:
        if self.errors:
            return StateReply(error=self.errors.pop(0), message="refused")
        decided = self.shard.decide(command, ticket=Ticket(1), now=0)
        decision = decided.alone(Ticket(1)) if isinstance(decided, SharedDecision) else decided
        for record in decision.records:
            self.shard.apply(record)
        reply: StateReply = decision.replies[0][1]
        return reply

    async def pause(self, delay: float) -> None:
        """Let other tasks run: the clock of these tests is moved by hand."""
        await asyncio.sleep(0)

    @property
    def start_offset(self) -> int:
        return self.shard.states[KEY].value.start_offset


class HostedTopic:
    def __init__(self, partitions: dict[int, Partition]) -> None:
        self.partitions = partitions
        self.bytes_out = 0


class HostedPartitions:
    def __init__(self) -> None:
        self.partitions = {
            index: Partition(TopicName("jobs"), TOPIC_ID, index, NodeId(1), open_log(SimDisk())) for index in range(2)
        }
        self.by_id = {TOPIC_ID.bytes: HostedTopic(self.partitions)}
        self.by_name = {b"jobs": self.by_id[TOPIC_ID.bytes]}
        self.is_leased = True

    def has_lease(self) -> bool:
        return self.is_leased


class ShareNode:
    def __init__(self, **settings: Any) -> None:
        self.clock = FakeClock()
        self.replicas = HostedPartitions()
        self.state = MemoryState()
        self.settings = ShareSettings(**{"auto_offset_reset": "earliest", **settings})
        self.session_count_max = 10
        replicas: Any = self.replicas
        state: Any = self.state
        self.leader = ShareLeader(
            replicas=replicas,
            clock=self.clock,
            pace=Pace(Scheduler(self.clock), lambda: True),
            state=state,
            settings_of=lambda group: self.settings,
            session_count_max=lambda: self.session_count_max,
        )

    @property
    def partition(self) -> Partition:
        return self.replicas.partitions[0]

    def produce(self, *counts: int, index: int = 0, **header: Any) -> None:
        """Append batches with so many records."""
        partition = self.replicas.partitions[index]
        for count in counts:
            written = memoryview(bytearray(batch(count, **header)))
            partition.append(written, acks=ALL_REPLICAS, now_ms=1_000, trusted=True)

    async def initialize(self, *indexes: int) -> None:
        for index in indexes or (0, 1):
            assert not (await self.state.ask(InitializeState(KEY._replace(partition=index), 1, -1))).error

    async def settle(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)


async def acknowledged(led: LedSharePartition, member: str, batches: Sequence[AcknowledgementBatch]) -> bool:
    """Acknowledge records and wait for the write; return whether there was one. Raises the error of the write."""
    written: asyncio.Future[Refusal | None] = asyncio.get_running_loop().create_future()
    if not led.acknowledge(member, batches, written.set_result):
        return False
    error = await written
    if error is not None:
        raise error
    return True
