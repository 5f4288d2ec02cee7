"""A context without a disk, a socket or a running clock: minimal fakes of the services that handlers use."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast
from uuid import UUID

from penstock.config.settings import BrokerSettings, topic_settings
from penstock.controller.broker_monitor import BrokerMonitor
from penstock.controller.controller import Controller
from penstock.controller.features import INITIAL
from penstock.handlers.support.context import Context, Endpoint, Request
from penstock.handlers.support.local_requests import answer_locally
from penstock.handlers.support.reply import Encoded, Parked
from penstock.membership.producer_ids import ProducerIds
from penstock.metadata import delta
from penstock.metadata.image import EMPTY, Image
from penstock.metadata.records import FeatureLevelRecord, MetadataRecord
from penstock.metadata.voters import VoterEndpoint, VoterRegistry, VoterSet
from penstock.metrics.metrics import Metrics
from penstock.model.errors import FencedLeaderEpoch, NotLeaderOrFollower, Refusal, UnknownLeaderEpoch
from penstock.model.ids import LeaderEpoch, NodeId, Offset
from penstock.model.job import Job
from penstock.quotas.limits import Spans
from penstock.quotas.throttle import Throttle
from penstock.replication.follower_sessions import Wakeups
from penstock.scheduling.scheduler import Scheduler
from penstock.shares.commands import StateReply
from penstock.transactions.coordinator_client import TransactionCoordinators
from penstock.wire import codec
from penstock.wire.api import APIS
from penstock.wire.frame import Header, parse_header, parse_response_header, request_head
from tests.unit.controller.cluster import broker


class FakeIdentity:
    def endpoints(self) -> tuple[VoterEndpoint, ...]:
        return (VoterEndpoint(name="CONTROLLER", host="localhost", port=9093),)


class FakeCore:
    may_change_voters = True


class FakeQuorum:
    """Commits immediately; with `stuck`, never; with a `refusal`, raises it."""

    def __init__(self) -> None:
        self.image: Image = EMPTY
        self.leader = NodeId(1)
        self.is_active = True
        self.epoch = LeaderEpoch(1)
        self.stuck = False
        self.refusal: Refusal | None = None
        self.node_id = NodeId(1)
        self.voter_registry = VoterRegistry({self.node_id: None})
        self.voter_registry.note_directory(self.node_id, UUID(int=1))
        self.identity = FakeIdentity()
        self.core = FakeCore()

    async def change_voters(self, voters: VoterSet) -> None:
        self.put(())
        self.voter_registry.append(self.image.offset, voters)

    async def commit(self, *parts: Sequence[MetadataRecord]) -> None:
        records = [record for part in parts for record in part]
        if self.stuck:
            await asyncio.Event().wait()
        if self.refusal is not None:
            raise self.refusal
        self.put(records)

    def put(self, records: Sequence[MetadataRecord]) -> None:
        offset = Offset(self.image.offset + len(records))
        _, self.image = delta.apply(self.image, records, offset=offset, epoch=LeaderEpoch(1))


class FakeRelay:
    """This node is the active controller."""

    is_needed = False


class FakeTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class FakeClock:
    """A clock that advances only when a test says so."""

    def __init__(self) -> None:
        self.timers: list[FakeTimer] = []
        self.awaited = asyncio.Event()

    def monotonic(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return 1_000_000

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(callback)
        self.timers.append(timer)
        self.awaited.set()
        return timer

    def ring(self) -> None:
        """Run every timer that is not cancelled."""
        for timer in self.timers:
            if timer.callback is not None:
                timer.callback()
        self.timers.clear()


class FakeEntropy:
    def __init__(self) -> None:
        self._count = 0
        self._random = Random(7)

    def uuid(self) -> UUID:
        self._count += 1
        return UUID(int=self._count)

    def stream(self, name: str) -> Random:
        return self._random


class FakeEpochs:
    def epoch_at(self, offset: int) -> int:
        return 0 if offset < 5 else 3


@dataclass
class FakeLog:
    start_offset: int = 0
    end_offset: int = 0
    size: int = 0
    overrides: Mapping[str, str] = field(default_factory=dict)
    times: Sequence[tuple[int, int, int]] = ()
    """(timestamp, offset, leader epoch), in the order of the offsets."""
    epochs: FakeEpochs = field(default_factory=FakeEpochs)
    error: Exception | None = None
    producers_known: Sequence[Any] = ()

    def producers(self) -> Sequence[Any]:
        return self.producers_known

    @property
    def settings(self) -> Any:
        return topic_settings(BrokerSettings(), self.overrides)

    def advance_start(self, offset: int) -> None:
        if self.error is not None:
            raise self.error
        self.start_offset = offset

    def lookup_time(self, timestamp: int) -> Job[tuple[int, int, int] | None]:
        yield None
        if self.error is not None:
            raise self.error
        return next((each for each in self.times if each[0] >= timestamp), None)

    def max_timestamp(self) -> Job[tuple[int, int, int]]:
        yield None
        return max(self.times, key=lambda each: (each[0], -each[1]), default=(-1, -1, -1))

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        if epoch > 3:
            return -1, -1
        return (0, 5) if epoch < 3 else (3, self.end_offset)


@dataclass
class FakePartition:
    topic: str
    index: int = 0
    log: FakeLog = field(default_factory=FakeLog)
    leader_epoch: int = 3
    high_watermark: int = 0
    last_stable_offset: int = 0
    is_leader: bool = True
    parked: list[Callable[[int], None]] | None = None
    """The callbacks that wait for a sync under way; None while there is none."""

    def wait_committed(self, deadline: float, done: Callable[[int], None]) -> bool:
        if self.parked is None:
            return False
        self.parked.append(done)
        return True

    def end_for_consumers(self, *, committed_only: bool) -> int:
        return self.last_stable_offset if committed_only else self.high_watermark

    def delete_before(self, offset: int) -> None:
        self.log.advance_start(offset)

    @property
    def low_watermark(self) -> int:
        return self.log.start_offset

    def check_epoch(self, current_leader_epoch: int) -> None:
        if not self.is_leader:
            raise NotLeaderOrFollower
        if 0 <= current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch
        if current_leader_epoch > self.leader_epoch:
            raise UnknownLeaderEpoch


class FakeReplicas:
    def __init__(self) -> None:
        self.wakeups = Wakeups(FakeClock())
        self.partitions: dict[tuple[str, int], FakePartition] = {}

    def put(self, partition: FakePartition) -> FakePartition:
        self.partitions[partition.topic, partition.index] = partition
        return partition

    def find(self, name: str, index: int) -> FakePartition | None:
        return self.partitions.get((name, index))

    async def settled(self) -> None:
        return None

    def all(self) -> Iterator[FakePartition]:
        return iter(self.partitions.values())


@dataclass
class FakeDirectory:
    path: str = "/data"
    failure: OSError | None = None
    refusal: OSError | None = None


@dataclass
class FakeLogStarts:
    error: OSError | None = None

    def when_saved(self, done: Callable[[OSError | None], None]) -> None:
        done(self.error)


@dataclass
class FakeStore:
    directory: FakeDirectory = field(default_factory=FakeDirectory)
    log_starts: FakeLogStarts = field(default_factory=FakeLogStarts)
    directory_id: UUID = UUID(int=1)


class FakeDisk:
    def space(self, path: str) -> tuple[int, int]:
        return 1000, 400


class FakeGroups:
    """Answers each type of command with a prepared reply; records the commands."""

    def __init__(self) -> None:
        self.replies: dict[type, Any] = {}
        self.commands: list[Any] = []
        self.serves_consumer_protocol = True

    async def ask(self, group_id: str, command: Any) -> Any:
        self.commands.append(command)
        reply = self.replies[type(command)]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def commit(self, command: Any, done: Callable[[Any, Exception | None], None]) -> None:
        self.commands.append(command)
        reply = self.replies[type(command)]
        if isinstance(reply, Exception):
            raise reply
        done(reply, None)

    async def list_groups(self, command: Any) -> Any:
        return await self.ask("", command)

    async def loaded(self, group_id: str) -> None:
        pass

    async def share_state_initialized(self, group_id: str, timeout_s: float) -> bool:
        return True

    def admit_member(self, metadata_size: int) -> None:
        pass


class FakeTransactions(FakeGroups):
    """The same for transactions."""

    def submit(self, transactional_id: str, command: Any) -> "asyncio.Future[Any]":
        return asyncio.ensure_future(self.ask(transactional_id, command))

    async def add_partitions(self, command: Any) -> Any:
        return await self.ask(command.transactional_id, command)

    async def list_transactions(self, command: Any) -> Any:
        return await self.ask("", command)


class FakeMarkerWriter:
    """Records the markers to write; refuses those of some topics."""

    def __init__(self) -> None:
        self.written: list[tuple[Any, ...]] = []
        self.refusals: dict[str, Refusal] = {}

    async def write(self, topic: str, *marker: Any) -> None:
        if topic in self.refusals:
            raise self.refusals[topic]
        self.written.append((topic, *marker))


class FakeShares:
    """Services of share groups that nobody uses."""

    def __init__(self) -> None:
        self.coordinator = FakeShareState()
        self.state = FakeShareState()
        self.leader: Any = FakeShareLeader()
        self.end_offsets = FakeEndOffsets()


class FakeShareState:
    """A share coordinator that answers each type of command with a prepared reply; records the commands."""

    def __init__(self) -> None:
        self.replies: dict[type, StateReply] = {}
        self.commands: list[Any] = []

    async def ask(self, *words: Any) -> StateReply:
        self.commands.append(words[-1])
        return self.replies.get(type(words[-1]), StateReply())

    async def loaded(self, key: str) -> None:
        return None


class FakeShareLeader:
    def connection_lost(self, connection: object) -> None:
        return None


class FakeEndOffsets:
    end: int | None = 10

    async def find(self, topic_id: UUID, index: int) -> int | None:
        return self.end


class FakePeers:
    """Peers that are all alive."""

    async def probe(self, node: int, *, timeout_s: float) -> None:
        return None


class FakeChannel:
    """A channel to this node, which is the controller."""

    def __init__(self, node: "FakeNode") -> None:
        self._node = node

    async def ask(self, api_key: int, request: Any, *, timeout_s: float) -> Any:
        return await answer_locally(self._node.context, api_key, request)


class FakeConnection:
    peer_host = "10.1.2.3"


class FakeNode:
    """A context and the fakes that it is made of."""

    def __init__(self, settings: Mapping[str, str] | None = None, *, brokers: Sequence[MetadataRecord] = ()) -> None:
        self.quorum = FakeQuorum()
        self.quorum.put([FeatureLevelRecord(name=name, feature_level=level) for name, level in INITIAL.items()])
        self.quorum.put(brokers or (broker(1),))
        self.clock = FakeClock()
        self.replicas = FakeReplicas()
        self.store = FakeStore()
        self.groups = FakeGroups()
        self.transactions = FakeTransactions()
        self.marker_writer = FakeMarkerWriter()
        self.shares = FakeShares()
        controller = Controller(self.quorum)
        static = BrokerSettings(settings)
        self.context = Context(
            settings=static,
            replicas=self.replicas,  # type: ignore[arg-type]
            controller=controller,
            monitor=BrokerMonitor(
                node_id=NodeId(1),
                cluster_id="the-cluster",
                controller=controller,
                peers=FakePeers(),  # type: ignore[arg-type]
                clock=self.clock,
                current_settings=lambda: static,
            ),
            producer_ids=ProducerIds(FakeChannel(self), NodeId(1), lambda: self.image.brokers[NodeId(1)].epoch),
            quorum=self.quorum,  # type: ignore[arg-type]
            groups=self.groups,  # type: ignore[arg-type]
            transactions=self.transactions,  # type: ignore[arg-type]
            transaction_coordinators=TransactionCoordinators(
                node_id=NodeId(1),
                image=lambda: self.quorum.image,
                peers=FakePeers(),  # type: ignore[arg-type]
                here=self.transactions,  # type: ignore[arg-type]
            ),
            marker_writer=self.marker_writer,  # type: ignore[arg-type]
            shares=self.shares,  # type: ignore[arg-type]
            clock=self.clock,
            entropy=FakeEntropy(),
            disk=FakeDisk(),  # type: ignore[arg-type]
            store=self.store,  # type: ignore[arg-type]
            node_id=NodeId(1),
            cluster_id="the-cluster",
            endpoints=(Endpoint("PLAINTEXT", "host1", 9092),),
            relay=FakeRelay(),  # type: ignore[arg-type]
            throttle=Throttle(self.clock, Spans),
            metrics=Metrics({api.key: api.name for api in APIS.values()}),
            scheduler=Scheduler(self.clock),
        )

    @property
    def image(self) -> Image:
        return self.quorum.image

    def request(self, api_key: int, version: int, body: Any, *, listener: str = "PLAINTEXT") -> Request:
        connection: Any = FakeConnection()
        return Request(Header(api_key, version, 1, "test", 0), body, connection, listener)

    async def ask(self, handler: Any, api_key: int, body: Any, *, version: int | None = None) -> Any:
        """Send a request as a client would: encoded and decoded in the given version, or the latest."""
        version = APIS[api_key].max_version if version is None else version
        received = codec.read_request(api_key, version, codec.write_request(api_key, version, body))
        reply = await handler(self.context, self.request(api_key, version, received))
        if isinstance(reply, Encoded):
            return self._read(api_key, version, reply.parts)
        return codec.read_response(api_key, version, codec.write_response(api_key, version, reply))

    def ask_hot(self, handle: Any, api_key: int, body: Any, *, version: int) -> Any:
        """Call a handler that takes the frame itself; its response must be ready."""
        written = codec.write_request(api_key, version, body)
        frame = memoryview(request_head(api_key, version, 7, "client", len(written)) + written)[4:]
        reply = handle(frame, parse_header(frame))
        return self._read(api_key, version, reply.parts if isinstance(reply, Parked) else reply)

    @staticmethod
    def _read(api_key: int, version: int, parts: Any) -> Any:
        frame = memoryview(b"".join(cast("Sequence[bytes]", parts)))
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        _, position = parse_response_header(api_key, version, frame[4:])
        return codec.read_response(api_key, version, frame[4 + position :])
