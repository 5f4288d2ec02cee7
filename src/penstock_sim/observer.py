"""The invariants that only show in what nodes hold: looked at while they run.

Subscribes to every node's metadata as it comes up, and looks at quorums, partitions and their marks
several times a simulated second. Invariants 13, 16-18, 20, 24-27; at the end also 14, 23 and 58.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from zlib import crc32

from penstock.metadata.delta import Delta
from penstock.metadata.image import Image, PartitionImage
from penstock.metadata.records import encode
from penstock.metadata.snapshot import records_of
from penstock.model.errors import StorageError
from penstock.model.ids import TopicName
from penstock.replication.partition import Partition
from penstock.storage.scan import BadBatch
from penstock.wire.batch import BatchHeader, iter_batches
from penstock_sim.host import Host
from penstock_sim.in_sync import members_behind, wrong_joiners
from penstock_sim.tables import differences
from penstock_sim.trace import Trace

LOOK_S = 0.4
HASHED_EVERY = 5
"""Every so many offsets of the metadata log the whole image is compared between nodes."""
QUORUM_STATE = "/data/__cluster_metadata-0/quorum-state"


class Observer:
    def __init__(self, hosts: Sequence[Host], trace: Trace, complaints: list[str]) -> None:
        self._hosts = hosts
        self._trace = trace
        self._complaints = complaints
        self.rotten: set[str] = set()
        self.lost: set[str] = set()
        """Partitions of which one disk has lost something: others hold all that is committed, and refill it."""
        self._leaders: dict[tuple[str, int, int], int] = {}
        self._quorum_leaders: dict[int, int] = {}
        self._images: dict[int, tuple[int, str]] = {}
        self._partitions: dict[tuple[str, int], PartitionImage] = {}
        self._seen_offset = -1
        self._epochs: dict[str, int] = {}
        self._quorum_marks: dict[tuple[str, int], int] = {}
        self._led_up_to: dict[str, int] = {}
        self._marks: dict[tuple[str, str, int], int] = {}
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
        if image.offset % HASHED_EVERY == 0:
            digest = crc32(b"".join(encode(record) for record in records_of(image)))
            known = self._images.setdefault(image.offset, (digest, host.name))
            if known[0] != digest:
                self._complain(f"inv_27: the metadata at offset {image.offset} differs on {known[1]} and {host.name}")
        if image.offset <= self._seen_offset:
            return
        # The first node that publishes an offset tells all of them what changed. While no node was up several things
        # may have happened one after the other, and only their sum is known.
        is_step = delta.before.offset == self._seen_offset
        self._seen_offset = image.offset
        for topic in image.topics.values():
            for index, state in enumerate(topic.partitions):
                before = self._partitions.get((topic.id.hex, index))
                self._partitions[topic.id.hex, index] = state
                if before is not None and before is not state:
                    self._changed(f"{topic.name}-{index}", before, state)
                    if is_step and state.partition_epoch == before.partition_epoch + 1:
                        self._stepped(f"{topic.name}-{index}", before, state, image)
                    if len(state.isr) > len(before.isr):
                        self._look_at_members(topic.name, index, state)

    def _changed(self, place: str, before: PartitionImage, state: PartitionImage) -> None:
        if state.leader_epoch < before.leader_epoch or state.partition_epoch < before.partition_epoch:
            self._complain(f"inv_13: the epoch of {place} went back")
        if state.leader != before.leader:
            if state.leader_epoch == before.leader_epoch:
                self._complain(f"inv_13: {place} changed its leader within epoch {state.leader_epoch}")
            self._trace.sometimes["leader changed"] += 1
            if state.leader < 0:
                self._trace.sometimes["no leader"] += 1
        if len(state.isr) == 1 and len(before.isr) > 1:
            self._trace.sometimes["one left in sync"] += 1
        if len(state.isr) > len(before.isr):
            self._trace.sometimes["in-sync set grew"] += 1

    def _stepped(self, place: str, before: PartitionImage, state: PartitionImage, image: Image) -> None:
        """One decision of the controller about a partition."""
        for problem in wrong_joiners(before, state, image):
            self._complain(f"inv_20: {place}: {problem}")
        eligible = {*before.isr, *before.eligible_leader_replicas}
        if state.leader >= 0 and state.leader != before.leader and state.leader not in eligible:
            self._complain(
                f"inv_17: {place} is led by {state.leader}, in sync were {before.isr}, "
                f"eligible {before.eligible_leader_replicas}"
            )
        if state.leader in before.eligible_leader_replicas and state.leader not in before.isr:
            self._trace.sometimes["leader from the eligible"] += 1

    # -- what nodes hold now ---------------------------------------------------------------

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        running = [host for host in self._hosts if host.is_up and host.node is not None]
        for host in running:
            self._look_at_quorum(host)
            assert host.node is not None
            for partition in host.node.context.replicas.all():
                self._look_at_mark(host, partition)
                if partition.is_leader and partition.lead is not None:
                    self._look_at_leader(host, partition, running)
        for host in self._hosts:
            self._look_at_vote(host)

    def _look_at_mark(self, host: Host, partition: Partition) -> None:
        """What a replica holds durably and knows to be committed stays there, unless an unclean election gave it up."""
        key = (host.name, partition.topic_id.hex, partition.index)
        place = f"{partition.topic}-{partition.index}"
        log = partition.log
        if log.damage is not None or partition.unclean:
            self._marks.pop(key, None)
            return
        mark = self._marks.get(key, 0)
        if log.end_offset < mark and not (host.may_lose and (place in self.lost or place in self.rotten)):
            self._complain(
                f"inv_18: {host.name} has removed committed records of {place}, from {log.end_offset} to {mark}"
            )
        self._marks[key] = max(mark, min(partition.high_watermark, log.durable_offset))

    def _look_at_quorum(self, host: Host) -> None:
        assert host.node is not None
        quorum = host.node.context.quorum
        if quorum.is_active:
            leader = self._quorum_leaders.setdefault(quorum.epoch, host.node_id)
            if leader != host.node_id:
                self._complain(f"inv_24: {leader} and {host.node_id} lead the quorum in epoch {quorum.epoch}")
        mark = self._quorum_marks.get((host.name, host.starts), 0)
        if quorum.high_watermark < mark:
            self._complain(f"inv_26: the quorum's mark on {host.name} went from {mark} to {quorum.high_watermark}")
        self._quorum_marks[host.name, host.starts] = quorum.high_watermark

    def _look_at_vote(self, host: Host) -> None:
        """The epoch of the quorum that a disk remembers never goes back."""
        if not host.disk.exists(QUORUM_STATE):
            return
        epoch = _epoch_in(host.disk.content_of(QUORUM_STATE))
        if epoch < self._epochs.get(host.name, 0):
            self._complain(f"inv_25: {host.name} has forgotten the quorum's epoch {self._epochs[host.name]}")
        self._epochs[host.name] = max(epoch, self._epochs.get(host.name, 0))

    def _look_at_members(self, topic: TopicName, index: int, state: PartitionImage) -> None:
        """A set that has just grown: its leader may not have heard of it yet, and has counted the new one already."""
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

    def _look_at_leader(self, host: Host, partition: Partition, running: Sequence[Host]) -> None:
        key = (partition.topic_id.hex, partition.index, partition.leader_epoch)
        leader = self._leaders.setdefault(key, host.node_id)
        place = f"{partition.topic}-{partition.index}"
        if leader != host.node_id:
            self._complain(f"inv_13: {leader} and {host.node_id} lead {place} in epoch {partition.leader_epoch}")
        durable = {each.node_id: _durable_end(each, partition) for each in running}
        if place not in self.rotten:
            # A leader may not have heard yet that a member's disk has lost something.
            losers = {each.node_id for each in running if each.may_lose and place in self.lost}
            members = [node_id for node_id in partition.isr if node_id not in losers]
            for problem in members_behind(members, partition.high_watermark, durable):
                self._complain(f"inv_16: {place}: {problem}")
        ends = [durable[each] for each in partition.replicas if each in durable]
        if len(ends) < len(partition.replicas) or None in ends:
            return  # Somebody is away, or does not know of the topic's beginning or end yet.
        if partition.high_watermark <= partition.log.start_offset or place in self.rotten or place in self.lost:
            return  # What one disk has lost is filled again from another.
        # With everybody there it can be counted who holds durably what consumers are shown.
        needed = min(partition.log.settings.min_insync_replicas, len(partition.replicas))
        holders = sum(end is not None and end >= partition.high_watermark for end in ends)
        if holders < needed:
            self._complain(
                f"inv_16: the mark of {place} is {partition.high_watermark}, and {holders} replicas hold that durably"
            )

    # -- the end ---------------------------------------------------------------------------

    def unequal(self) -> list[str]:
        """Partitions whose replicas are not all in sync, or have not reached the end that the leader had a look ago.

        Writers do not pause for the looks, so that ends are seldom all the same.
        """
        found: list[str] = []
        for place, partitions in self._replicas():
            leader = next((each for each in partitions if each.is_leader), None)
            if leader is None:
                found.append(f"{place} has no leader")
            elif len(leader.isr) < len(leader.replicas):
                found.append(f"{place} has {leader.isr} of {leader.replicas} in sync")
            else:
                ends = [each.log.end_offset for each in partitions]
                if min(ends) < self._led_up_to.get(place, leader.log.end_offset):
                    found.append(f"{place} ends at {ends}")
            if leader is not None:
                self._led_up_to[place] = leader.log.end_offset
        return found

    def compare_logs(self) -> None:
        """Below the mark all replicas are the same, byte for byte; compacted ones hold the same of every key."""
        for place, partitions in self._replicas():
            compacts = partitions[0].log.settings.compact
            # A replica compacts up to its own mark, and others may not have heard of that yet.
            mark = max(each.high_watermark for each in partitions) if compacts else _lowest_mark(partitions)
            if mark > min(each.log.end_offset for each in partitions):
                continue
            start = max(each.log.start_offset for each in partitions)
            contents = {_content(each, start, mark) for each in partitions} - {None}
            if len(contents) < 2:
                continue
            if not compacts:
                self._complain(f"inv_14: the replicas of {place} differ between {start} and {mark}")
                continue
            self._trace.sometimes["replicas compacted apart"] += 1
            problem = differences(sorted(each for each in contents if each is not None))
            if problem is not None:
                self._complain(f"inv_51: the replicas of {place} disagree between {start} and {mark}: {problem}")

    def _replicas(self) -> Iterator[tuple[str, list[Partition]]]:
        by_place: dict[tuple[str, str, int], list[Partition]] = {}
        for host in self._hosts:
            if host.is_up and host.node is not None:
                for partition in host.node.context.replicas.all():
                    key = (partition.topic_id.hex, partition.topic, partition.index)
                    by_place.setdefault(key, []).append(partition)
        for (_, topic, index), partitions in sorted(by_place.items()):
            yield f"{topic}-{index}", partitions


def _lowest_mark(partitions: Sequence[Partition]) -> int:
    return min(each.high_watermark for each in partitions)


def _durable_end(host: Host, partition: Partition) -> int | None:
    assert host.node is not None
    held = host.node.context.replicas.find(partition.topic, partition.index)
    return None if held is None or held.topic_id != partition.topic_id else held.log.durable_offset


def _content(partition: Partition, start: int, end: int) -> bytes | None:
    """The bytes of a log; None if it is damaged or unreadable, which a reader may be the first to notice."""
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
