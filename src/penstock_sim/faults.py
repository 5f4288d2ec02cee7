"""The faults: one coroutine for each kind in a seed, until the world heals.

A fault with a duration undoes itself. A fault that stops a node sets when it may restart; the world's supervisor
restarts it.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

from penstock.model.errors import Refusal
from penstock.model.ids import PartitionIndex, TopicName, TopicPartition
from penstock.ports.network import Connection
from penstock.storage.checkpoint import RECOVERY_POINTS, read_offsets
from penstock.storage.segment_list import SegmentList
from penstock.wire.api import ApiKey
from penstock.wire.batch import iter_batches
from penstock_sim.host import DATA, Host
from penstock_sim.machines import machine_of, on_same_machine
from penstock_sim.network import NetworkPort, SimConnection, Weather

if TYPE_CHECKING:
    from penstock_sim.world import World

LATE_PEER_REQUESTS = frozenset(
    {
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.ALTER_PARTITION,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
    }
)
LATE_AT_ONCE_MAX = 3
PEER_REQUESTS_KEPT = 20
DERIVED = (".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint")
ROTTING = (f"{DATA}/topic", f"{DATA}/table")
DERIVED_CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")


class Faults:
    def __init__(self, world: World) -> None:
        self._world = world
        self._random = Random(f"{world.plan.seed}:faults")
        self._loop = world.loop
        self._trace = world.trace
        self._requests: dict[int, deque[tuple[bytes, tuple[str, int]]]] = {}
        """Recent requests between nodes."""

    def start(self) -> list[asyncio.Task[Any]]:
        if "late_peer_requests" in self._world.plan.faults:
            self._world.hub.on_request = self._listen
        return [asyncio.ensure_future(self._keep_doing(name, mean)) for name, mean in self._world.plan.faults.items()]

    async def _keep_doing(self, name: str, mean_s: float) -> None:
        act: Callable[[Host], Coroutine[Any, Any, None]] = getattr(self, name)
        while True:
            await asyncio.sleep(self._random.expovariate(1 / mean_s))
            await act(self._random.choice(self._world.hosts))

    def _downtime_s(self) -> float:
        return self._random.choice((0.05, 1.0, 5.0, 12.0)) * (0.5 + self._random.random())

    # -- nodes -----------------------------------------------------------------------------

    async def kill(self, host: Host) -> None:
        if host.state != "down":
            self._world.down_for(host, self._downtime_s())
            host.kill()

    async def power_loss(self, host: Host) -> None:
        if host.state != "down":
            self._world.down_for(host, self._downtime_s())
            host.lose_power()

    async def clean_stop(self, host: Host) -> None:
        if host.is_up:
            self._world.down_for(host, self._downtime_s())
            await host.stop()

    async def crash_point(self, host: Host) -> None:
        """Crash the node at some disk call soon."""
        if host.is_up:
            host.disk.crash_at = host.disk.calls + self._random.randrange(1, 60)
            host.disk.power_fails_at_crash = self._random.random() < 0.5
            self._trace.fault("crash point", host.name)

    async def pause(self, host: Host) -> None:
        if host.is_up:
            seconds = self._random.choice((0.2, 2.0, 10.0, 25.0)) * self._random.random()
            self._trace.fault("pause", host.name, round(seconds, 3))
            self._loop.pause(host.owner, seconds)

    async def all_down(self, _: Host) -> None:
        power = self._random.random() < 0.5
        for host in self._world.hosts:
            self._world.down_for(host, self._downtime_s())
            if power:
                host.lose_power()
            else:
                host.kill()
        self._trace.fault("all down", "world", power)

    async def machine_down(self, host: Host) -> None:
        """End all nodes of a machine at the same moment, in half of the cases with the power."""
        power, downtime_s = self._random.random() < 0.5, self._downtime_s()
        for each in on_same_machine(host, self._world):
            self._world.down_for(each, downtime_s)
            if power:
                each.lose_power()
            else:
                each.kill()
        self._trace.fault("machine down", machine_of(host.node_id, self._world.plan), power)

    # -- disks -----------------------------------------------------------------------------

    async def slow_disk(self, host: Host) -> None:
        self._trace.fault("slow disk", host.name)
        host.disk.sync_s = self._random.choice((0.05, 0.3, 1.5))
        await asyncio.sleep(self._random.random() * 8)
        host.disk.sync_s = self._world.plan.sync_s

    async def sync_fails(self, host: Host) -> None:
        self._trace.fault("sync fails", host.name)
        host.disk.syncs_fail = True
        await asyncio.sleep(self._random.random() * 0.5)
        host.disk.syncs_fail = False

    async def disk_full(self, host: Host) -> None:
        self._trace.fault("disk full", host.name)
        host.disk.capacity = host.disk.used() + self._random.choice((0, self._random.randrange(400)))
        await asyncio.sleep(self._random.random() * 10)
        host.disk.capacity = None

    async def write_fails(self, host: Host) -> None:
        kind = self._random.choice(("write", "open", "rename", "truncate", "read"))
        code = self._random.choice((errno.EIO, errno.EMFILE if kind == "open" else errno.EIO))
        self._trace.fault("call fails", host.name, kind)
        host.disk.failing[kind] = code
        await asyncio.sleep(self._random.random() * 1.0)
        host.disk.failing.pop(kind, None)

    async def send_fails(self, host: Host) -> None:
        """Make file reads fail while responses are sent, for some time."""
        self._trace.fault("send fails", host.name)
        host.disk.failing["send"] = errno.EIO
        await asyncio.sleep(self._random.random() * 1.0)
        host.disk.failing.pop("send", None)

    async def bad_sector(self, host: Host) -> None:
        """Make part of a log unreadable while its node runs."""
        # At most one disk may fail, as at most one may decay.
        host = self._rotting_host()
        logs = [path for path in _logs(host) if _leads(host, _partition_of(path))] if host.is_up else []
        spots = [(path, *spot) for path in logs for spot in _rottable(host.disk.content_of(path))]
        if spots:
            path, start, end = self._random.choice(spots)
            self._trace.fault("bad sector", host.name, path, start)
            host.disk.make_unreadable(path, start, end)
            self._world.rotten.add(_partition_of(path))

    def _rotting_host(self) -> Host:
        return next(each for each in self._world.hosts if each.may_lose)

    async def _down(self, host: Host) -> bool:
        """Stop the node to change its files; return False if it is already stopped."""
        if not host.is_up:
            return False
        self._world.down_for(host, 30.0)
        if self._random.random() < 0.5:
            await host.stop()
        else:
            host.kill()
        return host.state == "down"

    async def derived_files(self, host: Host) -> None:
        """Delete or damage files that can be derived from the logs, or restore an old version of them."""
        old = {path: host.disk.content_of(path) for path in _derived(host)}
        await asyncio.sleep(self._random.random() * 6)
        if not await self._down(host):
            return
        for path in _derived(host):
            dice = self._random.random()
            if dice < 0.2:
                self._trace.fault("derived file lost", host.name, path)
                host.disk.remove(path)
            elif dice < 0.4 and host.disk.size_of(path):
                self._trace.fault("derived file rots", host.name, path)
                host.disk.flip(path, self._random.randrange(host.disk.size_of(path)), 1 << self._random.randrange(8))
            elif dice < 0.7 and old.get(path, host.disk.content_of(path)) != host.disk.content_of(path):
                self._trace.fault("derived file put back", host.name, path)
                host.disk.put_back(path, old[path])
        self._world.down_for(host, 0.5)

    async def rot(self, host: Host) -> None:
        """Flip a bit of a record that is not the last: the end of a log looks like a torn write."""
        # At most one disk may decay: a second one may have the only good copy of a record.
        host = self._rotting_host()
        if not await self._down(host):
            return
        spots = [(path, *spot) for path in _logs(host) for spot in _rottable(host.disk.content_of(path))]
        if spots:
            path, start, end = self._random.choice(spots)
            position = self._random.randrange(start, end)
            self._trace.fault("rot", host.name, path, position)
            host.disk.flip(path, position, 1 << self._random.randrange(8))
            self._world.rotten.add(_partition_of(path))
        self._world.down_for(host, 0.5)

    async def folder_lost(self, _: Host) -> None:
        """Remove a partition's directory while its node is down."""
        host = await self._down_for_loss()
        if host is None:
            return
        folders = sorted({path.rpartition("/")[0] for path in host.disk.files() if path.startswith(ROTTING)})
        folders = [each for each in folders if each.rpartition("-")[2].isdecimal()]
        if folders:
            self._lose("folder lost", host, self._random.choice(folders))
        self._back_up(host)

    async def segment_lost(self, _: Host) -> None:
        """Remove the file of a closed segment while its node is down."""
        host = await self._down_for_loss()
        if host is None:
            return
        closed = _closed_segments(host)
        if closed:
            self._lose("segment lost", host, self._random.choice(closed))
        self._back_up(host)

    async def segment_cut(self, _: Host) -> None:
        """Truncate the file of a closed segment while its node is down."""
        host = await self._down_for_loss()
        if host is None:
            return
        closed = [path for path in _closed_segments(host) if host.disk.size_of(path)]
        if closed:
            path = self._random.choice(closed)
            size = self._random.randrange(host.disk.size_of(path))
            self._trace.fault("segment cut", host.name, path, size)
            host.disk.cut_off(path, size)
            self._note_loss(path)
        self._back_up(host)

    async def log_unreadable(self, _: Host) -> None:
        """Make part of a log unreadable, or a segment impossible to open, from the node's start on."""
        host = await self._down_for_loss()
        if host is None:
            return
        logs = [path for path in _logs(host) if _partition_of(path).rpartition("-")[2].isdecimal()]
        if logs:
            path = self._random.choice(logs)
            size = host.disk.size_of(path)
            # Below 0 the file cannot be opened.
            start = self._random.randrange(-size // 2 - 1, size)
            self._trace.fault("log unreadable", host.name, path, start)
            host.disk.make_unreadable(path, start, start + self._random.choice((1, 512, 1 << 20)), lasting=True)
            self._note_loss(path)
        self._back_up(host)

    async def _down_for_loss(self) -> Host | None:
        """Stop the node whose disk may lose data, and possibly all others; return None if it is already down."""
        # One disk only, as with rot.
        host = self._rotting_host()
        with_others = self._random.random() < 0.5
        if not await self._down(host):
            return None
        for other in self._world.hosts:
            if with_others and other is not host:
                self._world.down_for(other, self._downtime_s())
                other.kill()
        return host

    def _back_up(self, host: Host) -> None:
        self._world.down_for(host, self._random.choice((0.1, 0.5, 3.0)))

    def _lose(self, what: str, host: Host, path: str) -> None:
        self._trace.fault(what, host.name, path)
        host.disk.lose(path)
        self._note_loss(path)

    def _note_loss(self, path: str) -> None:
        """Record the loss: a partition with one replica must return errors; with others it must be invisible."""
        partition_name = path[len(DATA) + 1 :].partition("/")[0]
        self._world.observer.lost.add(partition_name)
        if len(self._world.hosts) == 1:
            self._world.rotten.add(partition_name)

    # -- time and network ------------------------------------------------------------------

    async def clock_jump(self, host: Host) -> None:
        jump = self._random.choice((-600_000, -3_000, 2_000, 60_000, 900_000))
        host.skew_ms = max(min(host.skew_ms + jump, 1_800_000), -1_800_000)
        if host.clock is not None:
            host.clock.skew_ms = host.skew_ms
        self._trace.fault("clock jump", host.name, jump)

    async def reset(self, host: Host) -> None:
        count = self._world.hub.reset_some(host.name, self._random.choice((0.2, 1.0)))
        self._trace.fault("reset", host.name, count)

    async def client_partition(self, host: Host) -> None:
        victims = [each.name for each in self._world.clients if self._random.random() < 0.5]
        edges: set[tuple[str, str]] = set()
        for victim in victims:
            both = self._random.random()
            if both < 0.7:
                edges.add((victim, host.name))
            if both > 0.3:
                edges.add((host.name, victim))
        await self._block("client partition", edges)

    async def partition(self, host: Host) -> None:
        """Split the network into two sides or a ring, or isolate one node."""
        names = [each.name for each in self._world.hosts]
        side = {host.name} | {name for name in names if self._random.random() < 0.3}
        edges = {(a, b) for a in names for b in names if (a in side) != (b in side)}
        await self._block("partition", edges)

    async def one_way_partition(self, host: Host) -> None:
        names = [each.name for each in self._world.hosts]
        edges = {(a, b) for a in names for b in names if a != b and self._random.random() < 0.3}
        await self._block("one-way partition", edges)

    async def _block(self, what: str, edges: set[tuple[str, str]]) -> None:
        hub = self._world.hub
        self._trace.fault(what, "world", *sorted(edges)[:6])
        hub.set_blocked(hub.blocked | edges)
        await asyncio.sleep(self._random.choice((0.5, 4.0, 15.0)) * (0.3 + self._random.random()))
        hub.set_blocked(hub.blocked - edges)

    async def bad_weather(self, _: Host) -> None:
        self._trace.fault("bad weather", "world")
        self._world.hub.weather = Weather(
            latency_s=self._random.choice((0.0005, 0.02, 0.1)),
            jitter_s=self._random.choice((0.001, 0.05, 0.3)),
            spike_chance=self._random.choice((0.0, 0.02, 0.1)),
            spike_s=self._random.choice((0.5, 3.0, 10.0)),
            send_delay_chance=self._random.choice((0.0, 0.2)),
        )
        await asyncio.sleep(self._random.random() * 10)
        self._world.hub.weather = Weather()

    async def certificate_expires(self, host: Host) -> None:
        await self._distrust("certificate expires", host, self._world.hub.certificates.expired)

    async def certificate_untrusted(self, host: Host) -> None:
        await self._distrust("certificate untrusted", host, self._world.hub.certificates.untrusted)

    async def handshakes_stall(self, host: Host) -> None:
        await self._distrust("handshakes stall", host, self._world.hub.certificates.stalling)

    async def _distrust(self, what: str, host: Host, machines: set[str]) -> None:
        """Let new connections with the certificate of a node fail for a while, after resetting some open ones."""
        count = self._world.hub.reset_some(host.name, self._random.choice((0.0, 0.5, 1.0)))
        self._trace.fault(what, host.name, count)
        machines.add(host.name)
        await asyncio.sleep(self._random.choice((0.5, 4.0, 15.0)) * (0.3 + self._random.random()))
        machines.discard(host.name)
        self._world.hub.certificates.ended_at = self._world.loop.now

    async def late_requests(self, _: Host) -> None:
        """Deliver an old request again, over a separate connection."""
        late = self._world.shared.late
        if not late:
            return
        data, address = self._random.choice(late)
        self._trace.fault("late request", address[0])
        self._send(data, address)

    async def late_peer_requests(self, _: Host) -> None:
        """Deliver an old request between nodes again, after both have moved on."""
        for _count in range(self._random.randrange(1, LATE_AT_ONCE_MAX + 1) if self._requests else 0):
            api_key = self._random.choice(sorted(self._requests))
            data, address = self._random.choice(self._requests[api_key])
            self._trace.fault("late request of a node", address[0], api_key)
            self._send(data, address)

    def _listen(self, source: SimConnection, data: bytes) -> None:
        if not source.owner.name.startswith("node"):
            return
        while data:
            end = 4 + int.from_bytes(data[:4], "big")
            api_key = int.from_bytes(data[4:6], "big")
            if api_key in LATE_PEER_REQUESTS:
                requests = self._requests.setdefault(api_key, deque(maxlen=PEER_REQUESTS_KEPT))
                requests.append((data[:end], (source.peer_host, source.peer_port)))
            data = data[end:]

    def _send(self, data: bytes, address: tuple[str, int]) -> None:
        port = NetworkPort(self._world.hub, self._world.loop.owner("ghost"), "ghost")
        port.connect(*address, lambda connection: _send(connection, data))

    async def client_pause(self, _: Host) -> None:
        if self._world.clients:
            client = self._random.choice(self._world.clients)
            seconds = self._random.random() * 20
            self._trace.fault("client pause", client.name, round(seconds, 3))
            self._loop.pause(client.owner, seconds)


def _logs(host: Host) -> list[str]:
    return [path for path in host.disk.files() if path.endswith(".log") and path.startswith(ROTTING)]


def _partition_of(path: str) -> str:
    return path[len(DATA) + 1 :].partition("/")[0]


def _leads(host: Host, partition_name: str) -> bool:
    """Return whether this node leads the partition."""
    assert host.node is not None
    topic, _, index = partition_name.rpartition("-")
    partition = host.node.context.replicas.find(TopicName(topic), int(index))
    return partition is not None and partition.leadership is not None


def _derived(host: Host) -> list[str]:
    """Return the files of a node that can be derived from its logs."""
    names = [(path, path.rpartition("/")[2]) for path in host.disk.files() if "__cluster_metadata" not in path]
    return [path for path, name in names if name.endswith(DERIVED) or name in DERIVED_CHECKPOINTS]


def _closed_segments(host: Host) -> list[str]:
    """Return closed segments with successors in the logs of topics that clients read.

    Only those that are known to be whole: a loss in others looks as if they had never been synced.
    """
    logs = [path for path in host.disk.files() if path.endswith(".log") and path.startswith(ROTTING)]
    logs = [path for path in logs if path.rpartition("/")[0].rpartition("-")[2].isdecimal()]
    return [
        path
        for path, following in pairwise(logs)
        if path.rpartition("/")[0] == following.rpartition("/")[0] and _is_known(host, path, _base_of(following))
    ]


def _is_known(host: Host, path: str, end_offset: int) -> bool:
    """Return whether the broker knows that it has synced all of a segment: by its list, or by the recovery point."""
    folder = path.rpartition("/")[0]
    listed = SegmentList(host.disk, folder)
    with suppress(FileNotFoundError):
        listed.load()
    if listed.end_offset is not None and listed.end_offset >= end_offset:
        return True
    topic, _, index = folder.rpartition("/")[2].rpartition("-")
    points = read_offsets(host.disk, f"{DATA}/{RECOVERY_POINTS}")
    return points.get(TopicPartition(TopicName(topic), PartitionIndex(int(index))), 0) >= end_offset


def _base_of(path: str) -> int:
    return int(path.rpartition("/")[2].partition(".")[0])


def _rottable(content: bytes) -> list[tuple[int, int]]:
    """Return the ranges in which a flipped bit must be detected: batches that are not last, except the leader epoch,
    which the checksum does not cover."""
    ranges: list[tuple[int, int]] = []
    try:
        for view in list(iter_batches(content))[:-1]:
            start = ranges[-1][1] if ranges else 0
            ranges += [(start, start + 12), (start + 16, start + len(view))]
    except Refusal:
        return []
    return ranges


class _Ghost:
    """A session that ignores everything."""

    def frame(self, frame: memoryview) -> None:
        return

    def lost(self, error: Exception | None) -> None:
        return


def _send(connection: Connection | OSError, data: bytes) -> _Ghost | None:
    if isinstance(connection, OSError):
        return None
    connection.send((data,))
    return _Ghost()
