"""Invariant 61: a single full disk does not stop writes, and a node with reserved space survives it.

Only calm periods are checked: all nodes up, all links open, disks that may be full but are neither slow nor failing,
and no other recent fault. A calm period begins when every partition has a leader and a full ISR. While it lasts,
with at most one full disk:

- a node that has been unable to write for some time leads no partition and is in no ISR
- a batch that is retried until it is acknowledged is acknowledged within a time limit, whichever node leads
- a node that can write again rejoins all its ISRs within a time limit
- no node ends because of a full disk before its reserved space is used up, in calm periods or not
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.metadata.image import Image, PartitionImage
from penstock.storage.reserve import is_disk_full
from penstock_sim.host import Host
from penstock_sim.network import Weather

if TYPE_CHECKING:
    from penstock_sim.world import World

LOOK_S = 0.2
GRACE_S = 3.0
"""The minimum age of all other faults, after which every node has sent a heartbeat."""
HANDED_OVER_S_MAX = 1.5
ACKNOWLEDGED_S_MAX = 3.0
"""A leader change, and the backoff of a client that searches for the leader."""
BACK_S_MAX = 8.0
"""The backoff of a follower after an error, and the time to catch up."""


class Availability:
    def __init__(self, world: World) -> None:
        self._world = world
        self._calm: list[list[float]] = []
        """Start and last check of each calm period."""
        self._is_calm = False
        self._changed_at: dict[str, tuple[bool, float]] = {}
        """For each host, whether its node can write, and since when."""
        self._failures: dict[str, Exception | None] = {}
        """For each host, the last failure of its metadata log."""
        self._in_sync_since: dict[tuple[str, str], tuple[bool, float]] = {}
        """For each replica, whether it is in the ISR, and since when. Only calm periods count."""

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self.check()

    def check(self) -> None:
        world = self._world
        now = world.loop.now
        for host in world.hosts:
            self._check_end(host)
            self._note(host, now)
        image = self._image()
        if image is None or not self._may_be_calm(now):
            self._is_calm = False
            return
        if not self._is_calm:
            if all(_is_complete(state) for _, state in _partitions(image)):
                self._is_calm = True
                self._calm.append([now, now])
                self._in_sync_since.clear()
            return
        self._calm[-1][1] = now
        for host in world.hosts:
            self._check_isrs(host, image, now)

    def _note(self, host: Host, now: float) -> None:
        writes = host.node is None or host.node._context is None or not host.node.context.store.is_read_only
        if self._changed_at.get(host.name, (None, 0.0))[0] != writes:
            self._changed_at[host.name] = (writes, now)
            if not writes:
                self._world.trace.sometimes["read-only"] += 1

    def _check_end(self, host: Host) -> None:
        context = None if host.node is None else host.node._context
        if context is None or context.quorum._failure is self._failures.get(host.name):
            return  # A node that has ended may have room for its reserve again before it is gone.
        failure = self._failures[host.name] = context.quorum._failure
        if is_disk_full(failure) and context.store.reserved_bytes:
            self._complain(f"{host.name} ended on a full disk with {context.store.reserved_bytes} bytes in reserve")

    def _check_isrs(self, host: Host, image: Image, now: float) -> None:
        writes, since = self._changed_at[host.name]
        since = max(since, self._calm[-1][0])
        bound = BACK_S_MAX if writes else HANDED_OVER_S_MAX
        for partition_name, state in _partitions(image):
            if len(state.replicas) < 2 or host.node_id not in state.replicas or state.adding_replicas:
                continue
            in_sync = host.node_id in state.isr
            # A follower that was slow for a moment leaves the ISR and joins again.
            changed_at = self._joined_or_left_at(host, partition_name, in_sync, now)
            if now - max(since, changed_at if writes else 0.0) <= bound:
                continue
            # Damage that a reader finds later makes a replica leave the ISR until it is copied again.
            may_be_damaged = host.may_lose and partition_name in self._world.rotten
            if writes and not in_sync and not may_be_damaged:
                self._complain(
                    f"{host.name} has been able to write for {bound} s but is not in the ISR of {partition_name}: "
                    f"{state.isr}"
                )
            elif not writes and in_sync:
                role = "leads" if state.leader == host.node_id else "is in the ISR of"
                self._complain(
                    f"{host.name} has been unable to write for {bound} s but {role} {partition_name}: {state.isr}"
                )

    def _joined_or_left_at(self, host: Host, partition_name: str, in_sync: bool, now: float) -> float:
        """Return since when the replica of a node is in or out of the ISR."""
        key = host.name, partition_name
        if self._in_sync_since.get(key, (None, 0.0))[0] != in_sync:
            self._in_sync_since[key] = in_sync, now
        return self._in_sync_since[key][1]

    def late_writes(self) -> Iterator[str]:
        """Yield batches that were not acknowledged in time during a calm period."""
        if self._world.plan.tunes:
            return  # While three replicas must be in sync, a full disk may stop writes.
        for send in self._world.history.sends:
            if not send.idempotent or send.txn is not None or str(send.partition) in self._world.rotten:
                continue
            due = send.began + ACKNOWLEDGED_S_MAX
            if send.ended > due and any(begin <= send.began and due <= end for begin, end in self._calm):
                yield f"inv_61: {send.client} waits for an acknowledgement of {send.partition} since {send.began:.3f}"
                return

    def _may_be_calm(self, now: float) -> bool:
        world = self._world
        usual = world.plan.sync_s
        disks = [host.disk for host in world.hosts]
        return (
            all(host.is_up and not host.is_broken and host.owner.not_before <= now for host in world.hosts)
            and all(client.owner.not_before <= now for client in world.clients)
            and all(disk.sync_s <= usual and not disk.failing and not disk.syncs_fail for disk in disks)
            and not any(disk.has_unreadable for disk in disks)
            and sum(disk.capacity is not None or not self._changed_at[host.name][0]
                    for disk, host in zip(disks, world.hosts, strict=True)) <= len(disks) // 3
            and not world.hub.blocked
            and world.hub.weather == Weather()
            and now - world.hub.spikes_end_at > GRACE_S
            and not world.hub.certificates.may_delay(now - GRACE_S)
            and all(kind == "disk full" or now - at > GRACE_S for kind, at in world.trace.fault_at.items())
        )  # fmt: skip

    def _image(self) -> Image | None:
        """Return the metadata of the active controller."""
        for host in self._world.hosts:
            if host.is_up and host.node is not None and host.node.context.quorum.is_active:
                return host.node.context.quorum.image
        return None

    def _complain(self, what: str) -> None:
        if f"inv_61: {what}" not in self._world.complaints:
            self._world.complaints.append(f"inv_61: {what}")


def _partitions(image: Image) -> Iterator[tuple[str, PartitionImage]]:
    for topic in image.topics.values():
        for index, state in enumerate(topic.partitions):
            yield f"{topic.name}-{index}", state


def _is_complete(state: PartitionImage) -> bool:
    return state.leader >= 0 and len(state.isr) == len(state.replicas)
