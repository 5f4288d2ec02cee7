"""Three nodes with one shared partition: real replicas, fetchers and fetch handlers, on an in-memory network.

The controller is a model: it commits what a test passes to it and what leaders propose. A test decides when each node
receives the committed records, and when time passes and syncs complete.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kio.schema.alter_partition.v3 import response as alter_response
from kio.schema.assign_replicas_to_dirs.v0 import response as assign_response
from kio.schema.errors import ErrorCode

from penstock.client.interfaces import PeerUnavailable
from penstock.config.settings import BrokerSettings
from penstock.handlers.fetch import FetchHandler
from penstock.handlers.produce import ProduceHandler
from penstock.handlers.support.entities import NO_THROTTLE
from penstock.metadata.delta import Builder, Delta
from penstock.metadata.image import EMPTY, Image, PartitionImage
from penstock.metadata.records import (
    LOST_DIRECTORY,
    BrokerEndpoint,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from penstock.metrics.metrics import Metrics
from penstock.model.ids import LeaderEpoch, NodeId, Offset, TopicName
from penstock.ports.network import Connection, FileSlice, KeptFrame, Part, Session, copied
from penstock.replication.cluster_peers import PeerAccess
from penstock.replication.partition import ALL_REPLICAS, Partition
from penstock.replication.replicas import Replicas
from penstock.replication.waiting import WaitingProduce
from penstock.scheduling.scheduler import Scheduler
from penstock.server.session import ClientSession
from penstock.storage.store import LogStore
from penstock.wire.api import ApiKey
from penstock.wire.batch import BatchHeader
from penstock.wire.frame import parse_header
from penstock.wire.records import Record, decode_batch, encode_batch
from penstock_sim.disk import SimDisk

TOPIC = TopicName("orders")
TOPIC_ID = UUID(int=42)
NOW_MS = 1_700_000_000_000
NODES = (NodeId(1), NodeId(2), NodeId(3))


class Timer:
    def __init__(self, at: float, callback: Callable[[], None]) -> None:
        self.at = at
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Clock:
    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[Timer] = []

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return NOW_MS + int(self.now * 1000)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(self.now + delay_s, callback)
        self.timers.append(timer)
        return timer

    def fire(self) -> bool:
        """Run the timers that are due; return False if there were none."""
        due = [each for each in self.timers if each.at <= self.now]
        self.timers = [each for each in self.timers if each.at > self.now]
        for timer in due:
            if timer.callback is not None:
                timer.callback()
        return any(timer.callback is not None for timer in due)


class Ids:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(127) + 3)

    def stream(self, name: str) -> Random:
        return Random(name)


class End:
    """One end of an in-memory connection."""

    def __init__(self, network: "Network", owner: int, peer: int) -> None:
        self.network, self.owner, self.peer_node = network, owner, peer
        self.peer_host, self.peer_port, self.local_port = f"node{peer}", peer, owner
        self.is_node = True
        self.peer_certificate: bytes | None = None
        self.session: Session | None = None
        self.other: End
        self.paused = self.closed = False
        self.incoming: deque[bytes] = deque()

    def limit_frames(self, size_max: int | None) -> None: ...

    def send(self, parts: Sequence[Part]) -> None:
        data = b"".join(
            part.file.read(part.size, part.position) if isinstance(part, FileSlice) else bytes(part) for part in parts
        )
        while data and not self.closed:
            size = int.from_bytes(data[:4], "big")
            self.other.incoming.append(data[4 : 4 + size])
            data = data[4 + size :]

    def send_now(self, parts: Sequence[Part]) -> None:
        self.send(parts)

    def keep_frame(self, frame: memoryview) -> KeptFrame:
        return copied(frame)

    def pause_frames(self) -> None:
        self.paused = True

    def resume_frames(self) -> None:
        self.paused = False

    def close(self) -> None:
        for end in (self, self.other):
            if not end.closed:
                end.closed = True
                if end.session is not None:
                    end.session.lost(None)


class Network:
    def __init__(self) -> None:
        self.accept: dict[int, Callable[[Connection], Session]] = {}
        self.ends: list[End] = []
        self.dialing: list[tuple[int, int, Callable[[Any], Session | None]]] = []
        self.cut: set[tuple[int, int]] = set()

    def of(self, node_id: int) -> Any:
        return SimpleNamespace(
            connect=lambda host, port, opened: self.dialing.append((node_id, port, opened)), limit=None, listen=None
        )

    def is_cut(self, one: int, other: int) -> bool:
        return (one, other) in self.cut or (other, one) in self.cut

    def step(self) -> bool:
        """Open pending connections, then deliver one frame per connection; return False if there was nothing to do."""
        busy = False
        dialing, self.dialing = self.dialing, []
        for caller, callee, opened in dialing:
            if self.is_cut(caller, callee):
                self.dialing.append((caller, callee, opened))  # nobody answers
                continue
            busy = True
            if callee not in self.accept:
                opened(ConnectionRefusedError())
                continue
            near, far = End(self, caller, callee), End(self, callee, caller)
            near.other, far.other = far, near
            far.session = self.accept[callee](far)
            near.session = opened(near)
            self.ends += [near, far]
        for end in list(self.ends):
            if end.incoming and not end.closed and not end.paused and not self.is_cut(end.owner, end.peer_node):
                assert end.session is not None
                end.session.frame(memoryview(bytearray(end.incoming.popleft())))
                busy = True
        self.ends = [end for end in self.ends if not end.closed]
        return busy

    def hang_up(self, node_id: int) -> None:
        for end in list(self.ends):
            if node_id in (end.owner, end.peer_node):
                end.close()
        self.dialing = [each for each in self.dialing if each[0] != node_id]


class Node:
    def __init__(self, world: "ReplicatedPartition", node_id: NodeId) -> None:
        self.world = world
        self.id = node_id
        self.disk = SimDisk(node_id, syncs_at_once=world.syncs_at_once)
        self.up = False
        self.image = EMPTY
        self.heard = 0
        self.incarnation = UUID(int=0)

    def start(self) -> None:
        world = self.world
        self.up = True
        self.store = LogStore.load(
            self.disk,
            "/data",
            cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
            node_id=self.id,
            clock=world.clock,
            entropy=Ids(self.id + 1000 * len(world.log)),
        )
        self.settings = BrokerSettings(world.settings)
        self.epoch = -1
        self.replicas = Replicas(
            self.id,
            self.store,
            world.clock,
            lambda: self.settings,
            PeerAccess(
                network=world.network.of(self.id),
                channel=SimpleNamespace(ask=self._ask),
                broker_epoch=lambda: self.epoch,
                address_of=lambda node_id: (f"node{node_id}", int(node_id)),
            ),
        )
        context: Any = SimpleNamespace(
            settings=self.settings,
            replicas=self.replicas,
            clock=world.clock,
            entropy=Ids(self.id),
            quorum=SimpleNamespace(image=EMPTY),
            authorizer=None,
            metrics=Metrics({}),
            node_id=self.id,
            transactions=None,
            scheduler=Scheduler(world.clock),
        )
        self.context = context
        self.fetch = fetch = FetchHandler(context)
        self.produce = ProduceHandler(context)

        def dispatch(frame: memoryview, session: Any) -> Any:
            return fetch.handle(frame, parse_header(frame), session.listener)

        dispatcher: Any = SimpleNamespace(dispatch=dispatch)
        world.network.accept[self.id] = lambda far: ClientSession(far, "PLAINTEXT", dispatcher, lambda: None)
        self.replicas.start()
        self.image, self.heard = EMPTY, 0

    async def _ask(self, api_key: int, request: Any, *, timeout_s: float) -> Any:
        await asyncio.sleep(0)
        if not self.up or self.world.controller_is_away:
            raise PeerUnavailable("no controller")
        if api_key == ApiKey.ALTER_PARTITION:
            return self.world.alter_partition(request)
        return self.world.assign(request)

    def deliver(self, up_to: int | None = None) -> None:
        """Apply the committed records up to an index."""
        log = self.world.log
        while self.up and self.heard < (len(log) if up_to is None else up_to):
            builder = Builder(self.image)
            for record in log[self.heard]:
                builder.replay(record)
            self.heard += 1
            delta, self.image = builder.build(offset=Offset(self.heard), epoch=LeaderEpoch(1))
            self._publish(delta)

    def _publish(self, delta: Delta) -> None:
        self.context.quorum.image = self.image
        me = self.image.brokers.get(self.id)
        if me is not None and me.incarnation_id == self.incarnation:
            self.epoch = me.epoch
        self.replicas.image_changed(delta, self.image)

    @property
    def partition(self) -> Partition:
        found = self.replicas.find(TOPIC, 0)
        assert found is not None
        return found

    def crash(self, *, power: bool) -> None:
        """Stop without a clean close; with `power`, lose everything that was not synced."""
        self.up = False
        self.world.network.accept.pop(self.id, None)
        self.world.network.hang_up(self.id)
        company: Any = self.replicas._peers
        company.close()
        for timer in (self.replicas._sweep_timer, self.replicas._chores_timer):
            if timer is not None:
                timer.cancel()
        for log in self.store:
            log.flusher.notify_durable(None)
        self.disk.crash(Random(len(self.world.log)), kept=0.0 if power else 1.0)

    def values(self, *, below: int | None = None) -> dict[int, bytes]:
        """Return the values in the log by offset."""
        log = self.partition.log
        found: dict[int, bytes] = {}
        offset, end = log.start_offset, log.end_offset if below is None else min(below, log.end_offset)
        while offset < end:
            piece = log.read(offset, max_bytes=1 << 20, end=log.end_offset)
            assert piece is not None
            data = memoryview(piece.file.read(piece.size, piece.position))
            position = 0
            while position < len(data):
                size = int.from_bytes(data[position + 8 : position + 12], "big") + 12
                header = BatchHeader.at(data, position)
                for place, record in enumerate(decode_batch(data[position : position + size])):
                    found[header.base_offset + place] = bytes(record.value or b"")
                offset = header.next_offset
                position += size
        return {at: value for at, value in found.items() if below is None or at < below}


class ReplicatedPartition:
    def __init__(self, *, min_isr: int = 2, syncs_at_once: bool = True, **settings: str) -> None:
        self.clock = Clock()
        self.network = Network()
        self.syncs_at_once = syncs_at_once
        self.settings = {"num.replica.fetchers": "1", **{key.replace("_", "."): each for key, each in settings.items()}}
        self.log: list[list[MetadataRecord]] = []
        self.controller_is_away = False
        self.image: Image = EMPTY
        self.nodes = {node_id: Node(self, node_id) for node_id in NODES}
        self.acked: dict[int, bytes] = {}
        self.refused: list[int] = []
        self.sent = 0
        for node in self.nodes.values():
            node.start()
            self.register(node)
        self.commit(
            TopicRecord(name=TOPIC, topic_id=TOPIC_ID),
            PartitionRecord(
                partition_id=0,
                topic_id=TOPIC_ID,
                replicas=NODES,
                isr=NODES,
                removing_replicas=(),
                adding_replicas=(),
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=tuple(node.store.directory_id for node in self.nodes.values()),
            ),
        )
        self.configure("min.insync.replicas", str(min_isr))
        self.deliver()

    # -- the controller ------------------------------------------------------------------------

    def register(self, node: Node, *, fenced: bool = False) -> None:
        node.incarnation = UUID(int=1000 + len(self.log))
        end_point = BrokerEndpoint(name="PLAINTEXT", host=f"node{node.id}", port=node.id, security_protocol=0)
        self.commit(
            RegisterBrokerRecord(
                broker_id=node.id,
                incarnation_id=node.incarnation,
                broker_epoch=len(self.log) + 1,
                end_points=(end_point,),
                fenced=fenced,
                log_dirs=(node.store.directory_id,),
            )
        )

    def configure(self, name: str, value: str) -> None:
        self.commit(ConfigRecord(resource_type=2, resource_name=TOPIC, name=name, value=value))

    def commit(self, *records: MetadataRecord) -> None:
        builder = Builder(self.image)
        for record in records:
            builder.replay(record)
        self.log.append(list(records))
        _, self.image = builder.build(offset=Offset(len(self.log)), epoch=LeaderEpoch(1))

    def deliver(self, *node_ids: int) -> None:
        for node_id in node_ids or NODES:
            self.nodes[NodeId(node_id)].deliver()

    @property
    def state(self) -> PartitionImage:
        return self.image.topics[TOPIC].partitions[0]

    def change(self, **fields: Any) -> None:
        self.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, **fields))

    def elect(self, leader: int, isr: Sequence[int] | None = None) -> None:
        self.change(leader=leader, isr=tuple(NodeId(each) for each in isr) if isr is not None else None)

    def alter_partition(self, request: Any) -> Any:
        rows = []
        for part in request.topics[0].partitions:
            state = self.state
            isr = tuple(NodeId(each.broker_id) for each in part.new_isr_with_epochs)
            live = all(
                self.image.brokers[NodeId(each.broker_id)].epoch == each.broker_epoch
                and not self.image.brokers[NodeId(each.broker_id)].fenced
                for each in part.new_isr_with_epochs
                if each.broker_id not in state.isr
            )
            error = ErrorCode.none
            if part.leader_epoch != state.leader_epoch or request.broker_id != state.leader:
                error = ErrorCode.fenced_leader_epoch
            elif part.partition_epoch != state.partition_epoch:
                error = ErrorCode.invalid_update_version
            elif not live:
                error = ErrorCode.ineligible_replica
            else:
                self.change(isr=isr)
                state = self.state
            rows.append(
                alter_response.PartitionData(
                    partition_index=part.partition_index,
                    error_code=error,
                    leader_id=state.leader,  # type: ignore[arg-type]
                    leader_epoch=state.leader_epoch,  # type: ignore[arg-type]
                    isr=state.isr,  # type: ignore[arg-type]
                    partition_epoch=state.partition_epoch,  # type: ignore[arg-type]
                )
            )
        return alter_response.AlterPartitionResponse(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none,
            topics=(alter_response.TopicData(topic_id=TOPIC_ID, partitions=tuple(rows)),),
        )

    def assign(self, request: Any) -> Any:
        node_id = NodeId(request.broker_id)
        directory = request.directories[0].id_ or UUID(int=0)
        state = self.state
        directories = tuple(
            directory if each == node_id else known
            for each, known in zip(state.replicas, state.directories, strict=True)
        )
        isr = state.isr
        leader = None
        if directory == LOST_DIRECTORY:
            isr = tuple(each for each in isr if each != node_id)
            leader = isr[0] if isr and state.leader == node_id else None
        self.change(directories=directories, isr=isr, **({} if leader is None else {"leader": leader}))
        self.deliver()
        return assign_response.AssignReplicasToDirsResponse(
            throttle_time=NO_THROTTLE, error_code=ErrorCode.none, directories=()
        )

    # -- events --------------------------------------------------------------------------------

    async def settle(self, *, seconds: float = 0.0, deliver: bool = True) -> None:
        """Run frames, tasks and timers until nothing is left to do, then let time pass in small steps."""
        end = self.clock.now + seconds
        while True:
            for _ in range(200):
                await asyncio.sleep(0)
                if deliver:
                    self.deliver()
                busy = self.network.step()
                busy = self.clock.fire() or busy
                if self.syncs_at_once is False:
                    for node in self.nodes.values():
                        while node.up and node.disk.finish_sync():
                            busy = True
                if not busy:
                    break
            if self.clock.now >= end:
                return
            self.clock.now = min(end, self.clock.now + 0.05)

    def send(self, node_id: int, *, acks: int = ALL_REPLICAS, count: int = 1) -> None:
        """Write a batch of unique values."""
        node = self.nodes[NodeId(node_id)]
        partition = node.partition
        values = [b"%d" % (self.sent + each) for each in range(count)]
        self.sent += count
        sealed = encode_batch([Record(timestamp=NOW_MS, value=value) for value in values])
        appended = partition.append(memoryview(bytearray(sealed)), acks=acks, now_ms=NOW_MS)
        node.replicas.wakeups.run()

        def done(code: int) -> None:
            if code:
                self.refused.append(code)
                return
            for place, value in enumerate(values):
                offset = appended.base_offset + place
                assert self.acked.setdefault(offset, value) == value, "one offset, two values"

        if acks == ALL_REPLICAS:
            if appended.last_offset < partition.high_watermark:
                done(0)
            else:
                partition.wait_durable(WaitingProduce(appended.last_offset + 1, self.clock.now + 1000, done))

    def restart(self, node_id: int) -> None:
        node = self.nodes[NodeId(node_id)]
        node.start()
        self.register(node)

    def check(self) -> None:
        """Check the invariants that hold at all times."""
        up = [node for node in self.nodes.values() if node.up and node.replicas.find(TOPIC, 0) is not None]
        marks = {node.id: node.partition.high_watermark for node in up}
        for node in up:
            partition = node.partition
            assert partition.log.start_offset <= partition.last_stable_offset <= partition.high_watermark
            assert partition.high_watermark <= partition.log.end_offset
        for one in up:
            for other in up:
                shared = min(marks[one.id], marks[other.id])
                assert one.values(below=shared) == other.values(below=shared), "replicas differ below the mark"
        for node in up:
            leadership = node.partition.leadership
            if leadership is not None and self.state.leader == node.id and self.state.leader_epoch == leadership.epoch:
                for member in up:
                    if member.id in self.state.isr:
                        assert member.partition.log.durable_offset >= marks[node.id], "the mark is not held by all"

    def check_leader_has_all(self, node_id: int) -> None:
        held = self.nodes[NodeId(node_id)].values()
        missing = {offset: value for offset, value in self.acked.items() if held.get(offset) != value}
        assert not missing, f"acknowledged and lost: {missing}"
