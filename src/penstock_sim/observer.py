"""Invariants about the state of nodes, checked while they run.

Subscribes to every node's metadata when it starts, and checks quorums, partitions and high watermarks several times per
simulated second. Invariants 13, 16-18, 20, 24-27, 62; at the end also 14, 23 and 58.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from zlib import crc32

from penstock.metadata.delta import Delta
from penstock.metadata.image import Image, PartitionImage
from penstock.metadata.records import encode
from penstock.metadata.snapshot import records_of
from penstock.model.errors import StorageError
from penstock.model.ids import NodeId, TopicName
from penstock.replication.partition import Partition
from penstock.storage.partition_folder import DAMAGED_SUFFIX
from penstock.storage.scan import BadBatch
from penstock.wire.batch import BatchHeader, iter_batches
from penstock_sim.admin import LEAST_MIN_ISR
from penstock_sim.history import LeaderChange
from penstock_sim.host import DATA, Host
from penstock_sim.in_sync import members_behind, wrong_joiners
from penstock_sim.machines import being_moved, sharing
from penstock_sim.tables import differences
from penstock_sim.trace import Trace

LOOK_S = 0.4
FAR_BEHIND_RECORDS = 30
"""More than producers write in the time of a fetch."""
COPY_S_MAX = 150.0
HASHED_EVERY = 5
"""The interval, in offsets of the metadata log, at which the whole image is compared between nodes."""
QUORUM_STATE = "/data/__cluster_metadata-0/quorum-state"


def _is_read_only(node_id: NodeId, image: Image) -> bool:
    broker = image.brokers.get(node_id)
    return broker is not None and broker.read_only


class Observer:
    def __init__(
        self, hosts: Sequence[Host], trace: Trace, complaints: list[str], *, min_isr_changes: bool = False
    ) -> None:
        """`min_isr_changes`: a client changes min.insync.replicas."""
        self._hosts = hosts
        self._trace = trace
        self._complaints = complaints
        self._min_isr_changes = min_isr_changes
        self.rotten: set[str] = set()
        self.lost: set[str] = set()
        """Partitions with data loss on one disk: other replicas have all committed records and refill it."""
        self.leader_changes: dict[str, list[LeaderChange]] = {}
        self._leaders: dict[tuple[str, int, int], int] = {}
        self._quorum_leaders: dict[int, int] = {}
        self._images: dict[int, tuple[int, str]] = {}
        self._partitions: dict[tuple[str, int], PartitionImage] = {}
        self._seen_offset = -1
        self._epochs: dict[str, int] = {}
        self._quorum_marks: dict[tuple[str, int], int] = {}
        self._led_up_to: dict[str, int] = {}
        self._marks: dict[tuple[str, str, int, int], int] = {}
        self._added: dict[tuple[int, str, int], list[int]] = {}
        """For each node and partition, the partition epochs in which it became a replica: then its log is empty."""
        self.on_published: Callable[[Host, Image], None] = lambda host, image: None
        """Called for every image of a node, from the one with which it starts."""
        self.on_check: Callable[[], None] = lambda: None
        for host in hosts:
            host.on_up = self._up

    def _complain(self, what: str) -> None:
        if what not in self._complaints:
            self._complaints.append(what)

    # -- metadata --------------------------------------------------------------------------

    def _up(self, host: Host) -> None:
        assert host.node is not None
        host.node.context.quorum.subscribe(lambda delta, image: self._published(host, delta, image))

    def _published(self, host: Host, delta: Delta, image: Image) -> None:
        self.on_published(host, image)
        if image.offset % HASHED_EVERY == 0:
            digest = crc32(b"".join(encode(record) for record in records_of(image)))
            known = self._images.setdefault(image.offset, (digest, host.name))
            if known[0] != digest:
                self._complain(
                    f"inv_27: the metadata at offset {image.offset} differs between {known[1]} and {host.name}"
                )
        if image.offset <= self._seen_offset:
            return
        # The first node that publishes an offset is used to check each change. If no node was up for some time, several
        # changes may have happened, and only their sum is known.
        is_step = delta.before.offset == self._seen_offset
        self._seen_offset = image.offset
        for topic in image.topics.values():
            for index, state in enumerate(topic.partitions):
                before = self._partitions.get((topic.id.hex, index))
                self._partitions[topic.id.hex, index] = state
                if before is None and is_step and (problem := sharing(state.replicas, image)) is not None:
                    self._complain(f"inv_62: the new partition {topic.name}-{index} has {problem}")
                for node_id in () if before is None else set(state.adding_replicas) - set(before.replicas):
                    self._added.setdefault((node_id, topic.id.hex, index), []).append(state.partition_epoch)
                if before is not None and before is not state:
                    self._changed(f"{topic.name}-{index}", before, state)
                    if is_step and state.partition_epoch == before.partition_epoch + 1:
                        self._stepped(f"{topic.name}-{index}", before, state, image)
                    if len(state.isr) > len(before.isr):
                        self._check_members(topic.name, index, state)

    def _changed(self, partition_name: str, before: PartitionImage, state: PartitionImage) -> None:
        if state.replicas != before.replicas:
            self._trace.sometimes["replicas changed"] += 1
        if state.leader_epoch < before.leader_epoch or state.partition_epoch < before.partition_epoch:
            self._complain(f"inv_13: the epoch of {partition_name} decreased")
        if state.leader != before.leader:
            if state.leader_epoch == before.leader_epoch:
                self._complain(f"inv_13: {partition_name} changed its leader within epoch {state.leader_epoch}")
            self._trace.sometimes["leader changed"] += 1
            if state.leader < 0:
                self._trace.sometimes["no leader"] += 1
        if state.leader_epoch != before.leader_epoch:
            self.leader_changes.setdefault(partition_name, []).append(
                LeaderChange(self._trace.now(), f"node{state.leader}")
            )
        if len(state.isr) == 1 and len(before.isr) > 1:
            self._trace.sometimes["one left in sync"] += 1
        if len(state.isr) > len(before.isr):
            self._trace.sometimes["in-sync set grew"] += 1

    def _stepped(self, partition_name: str, before: PartitionImage, state: PartitionImage, image: Image) -> None:
        """Check one decision of the controller about a partition."""
        for problem in wrong_joiners(before, state, image):
            self._complain(f"inv_20: {partition_name}: {problem}")
        eligible = {*before.isr, *before.eligible_leader_replicas}
        if before.removing_replicas and not state.removing_replicas:
            # The replica whose join completes a reassignment may lead in the same step, in place of a removed one.
            eligible |= set(state.isr)
        if before.leader in before.isr and before.leader not in state.isr and _is_read_only(before.leader, image):
            # So may one that joins the ISR of a leader that cannot write, which leaves the ISR in that step.
            eligible |= set(state.isr)
        if state.leader >= 0 and state.leader != before.leader and state.leader not in eligible:
            self._complain(
                f"inv_17: {partition_name} is led by {state.leader}, but the ISR was {before.isr}, "
                f"eligible {before.eligible_leader_replicas}"
            )
        if state.leader in before.eligible_leader_replicas and state.leader not in before.isr:
            self._trace.sometimes["leader from the eligible"] += 1

    # -- what nodes hold now ---------------------------------------------------------------

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self.check()

    def check(self) -> None:
        running = [host for host in self._hosts if host.is_up and host.node is not None]
        for host in running:
            self._check_quorum(host)
            assert host.node is not None
            for partition in host.node.context.replicas.all():
                self._check_high_watermark(host, partition)
                if partition.is_leader and partition.leadership is not None:
                    self._check_leader(host, partition, running)
        for host in self._hosts:
            self._check_vote(host)
        self.on_check()

    def _check_high_watermark(self, host: Host, partition: Partition) -> None:
        """Check that a replica keeps durable committed records, except after an unclean election."""
        key = (host.name, partition.topic_id.hex, partition.index, self._replica_since(host, partition))
        partition_name = f"{partition.topic}-{partition.index}"
        log = partition.log
        if log.damage is not None or partition.unclean:
            self._marks.pop(key, None)
            return
        mark = self._marks.get(key, 0)
        if log.end_offset < mark and _is_set_aside(host, partition_name):
            # The replica was damaged since the last look, and is copied again.
            mark = 0
        elif log.end_offset < mark and not (
            host.may_lose and (partition_name in self.lost or partition_name in self.rotten)
        ):
            self._complain(
                f"inv_18: {host.name} has removed committed records of {partition_name}, from {log.end_offset} to "
                f"{mark}"
            )
        self._marks[key] = max(mark, min(partition.high_watermark, log.durable_offset))

    def _replica_since(self, host: Host, partition: Partition) -> int:
        """Return the partition epoch in which a node became a replica, as far as it knows; 0 for the first replicas."""
        assert host.node is not None
        state = host.node.context.quorum.image.partition(partition.topic, partition.index)
        added = self._added.get((host.node_id, partition.topic_id.hex, partition.index), ())
        return max((epoch for epoch in added if state is not None and epoch <= state.partition_epoch), default=0)

    def _check_quorum(self, host: Host) -> None:
        assert host.node is not None
        quorum = host.node.context.quorum
        if quorum.is_active:
            leader = self._quorum_leaders.setdefault(quorum.epoch, host.node_id)
            if leader != host.node_id:
                self._complain(f"inv_24: {leader} and {host.node_id} lead the quorum in epoch {quorum.epoch}")
        mark = self._quorum_marks.get((host.name, host.starts), 0)
        if quorum.high_watermark < mark:
            self._complain(
                f"inv_26: the quorum's high watermark on {host.name} went from {mark} to {quorum.high_watermark}"
            )
        self._quorum_marks[host.name, host.starts] = quorum.high_watermark

    def _check_vote(self, host: Host) -> None:
        """Check that the quorum epoch on a disk never decreases."""
        if not host.disk.exists(QUORUM_STATE):
            return
        epoch = _epoch_in(host.disk.content_of(QUORUM_STATE))
        if epoch < self._epochs.get(host.name, 0):
            self._complain(f"inv_25: {host.name} has forgotten the quorum's epoch {self._epochs[host.name]}")
        self._epochs[host.name] = max(epoch, self._epochs.get(host.name, 0))

    def _check_members(self, topic: TopicName, index: int, state: PartitionImage) -> None:
        """Check an ISR that has just grown: its leader may not know it yet, but already counts the new member."""
        running = [host for host in self._hosts if host.is_up and host.node is not None]
        for host in running:
            assert host.node is not None
            led = host.node.context.replicas.find(topic, index)
            if led is None or not led.is_leader or led.leader_epoch != state.leader_epoch:
                continue
            if f"{topic}-{index}" not in self.rotten:
                ends = {each.node_id: _durable_end(each, led) for each in running}
                for problem in members_behind(state.isr, led.high_watermark, ends):
                    self._complain(f"inv_16: {topic}-{index}: {problem}")

    def _check_leader(self, host: Host, partition: Partition, running: Sequence[Host]) -> None:
        key = (partition.topic_id.hex, partition.index, partition.leader_epoch)
        leader = self._leaders.setdefault(key, host.node_id)
        partition_name = f"{partition.topic}-{partition.index}"
        if leader != host.node_id:
            self._complain(
                f"inv_13: {leader} and {host.node_id} lead {partition_name} in epoch {partition.leader_epoch}"
            )
        durable = {each.node_id: _durable_end(each, partition) for each in running}
        if partition_name not in self.rotten:
            # A leader may not know yet that a member's disk has lost data.
            losers = {each.node_id for each in running if each.may_lose and partition_name in self.lost}
            members = [node_id for node_id in self._counted(partition) if node_id not in losers]
            for problem in members_behind(members, partition.high_watermark, durable):
                self._complain(f"inv_16: {partition_name}: {problem}")
        ends = [durable[each] for each in partition.replicas if each in durable]
        if len(ends) < len(partition.replicas) or None in ends:
            return  # A replica is down, or does not know yet that the topic was created or deleted.
        if (
            partition.high_watermark <= partition.log.start_offset
            or partition_name in self.rotten
            or partition_name in self.lost
        ):
            return  # Data lost by one disk is refilled from another.
        # If all replicas are up, count those that durably have the records that consumers can read.
        # Before a client raised min.insync.replicas, fewer may have been enough.
        least = LEAST_MIN_ISR if self._min_isr_changes else partition.log.settings.min_insync_replicas
        needed = min(least, len(partition.replicas))
        holders = sum(end is not None and end >= partition.high_watermark for end in ends)
        if holders < needed:
            self._complain(
                f"inv_16: the high watermark of {partition_name} is {partition.high_watermark}, but only {holders} "
                "replicas have it durably"
            )

    def _counted(self, partition: Partition) -> Sequence[int]:
        """Return a leader's ISR, without members that a newer epoch has removed if the leader does not know that yet.

        A removed member deletes its log. The leader cannot advance its high watermark without it.
        """
        state = self._partitions.get((partition.topic_id.hex, partition.index))
        if state is None or state.leader_epoch == partition.leader_epoch:
            return partition.isr
        return [node_id for node_id in partition.isr if node_id in state.isr]

    # -- the end ---------------------------------------------------------------------------

    def unequal(self) -> list[str]:
        """Return partitions whose replicas are not all in sync, or have not reached the leader's end at the last check.

        Producers do not pause for the checks, so the ends are rarely all equal.
        """
        found: list[str] = []
        for partition_name, partitions in self._replicas():
            leader = next((each for each in partitions if each.is_leader), None)
            if leader is None:
                found.append(f"{partition_name} has no leader")
            elif len(leader.isr) < len(leader.replicas):
                found.append(f"{partition_name} has ISR {leader.isr} of replicas {leader.replicas}")
            else:
                ends = [each.log.end_offset for each in partitions]
                if min(ends) < self._led_up_to.get(partition_name, leader.log.end_offset):
                    found.append(f"{partition_name} ends at {ends}")
            if leader is not None:
                self._led_up_to[partition_name] = leader.log.end_offset
        return found

    @property
    def copying_s(self) -> float:
        """Return how much longer replicas may be out of sync while one of them is copied, from its log start or not.

        A client may move a replica, or a reader find damage, shortly before the end. Producers do not pause, and a
        follower with a slow disk, or with segments of a few records, is hardly faster than they are.
        """
        names = (name for host in self._hosts for name in host.disk.list(DATA))
        is_copying = any(name.endswith(DAMAGED_SUFFIX) for name in names) or being_moved(self._hosts)
        return COPY_S_MAX if is_copying or self._is_any_far_behind() else 0.0

    def _is_any_far_behind(self) -> bool:
        ends = [[each.log.end_offset for each in partitions] for _, partitions in self._replicas()]
        return any(max(each) - min(each) > FAR_BEHIND_RECORDS for each in ends)

    def compare_logs(self) -> None:
        """Compare replicas below the high watermark: equal bytes, or if compacted, the same for every key."""
        for partition_name, partitions in self._replicas():
            compacts = partitions[0].log.settings.compact
            # A replica compacts up to its own high watermark, which others may not know yet.
            mark = max(each.high_watermark for each in partitions) if compacts else _lowest_mark(partitions)
            if mark > min(each.log.end_offset for each in partitions):
                continue
            start = max(each.log.start_offset for each in partitions)
            contents = {_content(each, start, mark) for each in partitions} - {None}
            if len(contents) < 2:
                continue
            if not compacts:
                self._complain(f"inv_14: the replicas of {partition_name} differ between {start} and {mark}")
                continue
            self._trace.sometimes["replicas compacted apart"] += 1
            problem = differences(sorted(each for each in contents if each is not None))
            if problem is not None:
                self._complain(
                    f"inv_51: the replicas of {partition_name} disagree between {start} and {mark}: {problem}"
                )

    def _replicas(self) -> Iterator[tuple[str, list[Partition]]]:
        by_partition: dict[tuple[str, str, int], list[Partition]] = {}
        for host in self._hosts:
            if host.is_up and host.node is not None:
                for partition in host.node.context.replicas.all():
                    key = (partition.topic_id.hex, partition.topic, partition.index)
                    by_partition.setdefault(key, []).append(partition)
        for (_, topic, index), partitions in sorted(by_partition.items()):
            yield f"{topic}-{index}", partitions


def _lowest_mark(partitions: Sequence[Partition]) -> int:
    return min(each.high_watermark for each in partitions)


def _durable_end(host: Host, partition: Partition) -> int | None:
    assert host.node is not None
    held = host.node.context.replicas.find(partition.topic, partition.index)
    return None if held is None or held.topic_id != partition.topic_id else held.log.durable_offset


def _content(partition: Partition, start: int, end: int) -> bytes | None:
    """Return the bytes of a log; None if it is damaged or unreadable, which a read may be the first to detect."""
    try:
        return _read(partition, start, end)
    except (StorageError, BadBatch, OSError):
        return None


def _read(partition: Partition, start: int, end: int) -> bytes:
    data = bytearray()
    offset = start
    while offset < end:
        piece = partition.log.read(offset, max_bytes=1 << 20, end=end)
        if piece is None:
            break
        read = piece.file.read(piece.size, piece.position)
        data += read
        offset = max(offset + 1, _next_offset(read))
    return bytes(data)


def _next_offset(data: bytes) -> int:
    last = 0
    for view in iter_batches(data):
        last = BatchHeader.at(view).next_offset
    return last


def _epoch_in(content: bytes) -> int:
    try:
        return int(json.loads(content)["leaderEpoch"])
    except (ValueError, KeyError):
        return 0


def _is_set_aside(host: Host, partition_name: str) -> bool:
    """Return whether the damaged folder of a partition was set aside."""
    names = host.disk.list(DATA)
    return any(name.startswith(f"{partition_name}.") and name.endswith(DAMAGED_SUFFIX) for name in names)
