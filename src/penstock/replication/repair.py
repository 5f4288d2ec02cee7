"""Repair of replicas that are damaged or whose disk was lost.

A damaged replica is reported to the controller, set aside, copied again from the leader and assigned back. `next_step`
decides; `Repairs` carries it out and sends AssignReplicasToDirs until the metadata image shows the change. Nothing is
removed before the replica is complete again. The table is in docs/internals/replication.md. Calls storage/store.py
through the `replace` callback.
"""

import asyncio
import logging
from collections.abc import Callable
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from penstock.client.channel import pause
from penstock.client.interfaces import ControllerChannel, PeerUnavailable
from penstock.metadata.image import Image, PartitionImage
from penstock.metadata.records import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from penstock.model.ids import NO_NODE, NodeId
from penstock.ports.clock import Clock
from penstock.replication.partition import Partition
from penstock.wire.api import ApiKey

if TYPE_CHECKING:
    from kio.schema.assign_replicas_to_dirs.v0.request import AssignReplicasToDirsRequest

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 5.0
POLL_S: Final = 0.02
RETRY_S: Final = 0.2
REPLICAS_PER_REQUEST_MAX: Final = 2_000
"""The controller accepts no more than a few thousand replicas in one request."""


class Next(Enum):
    NOTHING = "nothing"
    REPORT_LOST = "report the replica as lost"
    REPLACE = "set the folder aside and start with an empty log"
    REPORT_ASSIGNED = "report the replica as complete, in this node's directory"


def next_step(*, damaged: bool, directory: UUID, own_directory: UUID, has_other_leader: bool, caught_up: bool) -> Next:
    """Return the next step for a replica of several. `caught_up`: it has all below its leader's high watermark."""
    if damaged:
        if directory != LOST_DIRECTORY:
            return Next.REPORT_LOST
        return Next.REPLACE if has_other_leader else Next.NOTHING
    if directory == own_directory:
        return Next.NOTHING
    if directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY) or (has_other_leader and caught_up):
        return Next.REPORT_ASSIGNED
    return Next.NOTHING


def directory_of(state: PartitionImage, node_id: NodeId) -> UUID:
    """Return the directory of a replica; unassigned, which is usable, if the image does not contain one."""
    slot = state.replicas.index(node_id)
    return state.directories[slot] if slot < len(state.directories) else UNASSIGNED_DIRECTORY


def is_usable(directory: UUID, log_dirs: tuple[UUID, ...]) -> bool:
    """Return whether a replica in the directory is usable, given the directories of its broker."""
    if directory == LOST_DIRECTORY:
        return False
    return directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY) or not log_dirs or directory in log_dirs


class Repairs:
    """The replicas of this node that are damaged, incomplete, or in another directory than the image says."""

    def __init__(
        self,
        channel: ControllerChannel,
        clock: Clock,
        *,
        node_id: NodeId,
        own_directory: UUID,
        broker_epoch: Callable[[], int],
        replace: Callable[[Partition], None],
        repaired: Callable[[Partition], None],
    ) -> None:
        self._channel = channel
        self._clock = clock
        self._node_id = node_id
        self._own_directory = own_directory
        self._broker_epoch = broker_epoch
        self._replace = replace
        self._repaired = repaired
        self._caught_up: set[tuple[UUID, int]] = set()
        self._emptied: set[tuple[UUID, int]] = set()
        """Replicas that were set aside and are not complete again, even if an image assigns them to this node."""
        self._watched: dict[tuple[UUID, int], Partition] = {}
        self._wanted: dict[tuple[UUID, int], UUID] = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def update(self, partition: Partition, state: PartitionImage) -> None:
        """Decide about one replica; called when it is opened, found damaged, or changed in the image."""
        key = (partition.topic_id, partition.index)
        if len(state.replicas) < 2 or self._node_id not in state.replicas:
            self.forget(partition)
            return
        directory = directory_of(state, self._node_id)
        damaged = partition.log.damage is not None or (key in self._emptied and directory != LOST_DIRECTORY)
        step = next_step(
            damaged=damaged,
            directory=directory,
            own_directory=self._own_directory,
            has_other_leader=state.leader not in (NO_NODE, self._node_id),
            caught_up=key in self._caught_up,
        )
        self._wanted.pop(key, None)
        if not damaged and directory == self._own_directory:
            if self._watched.pop(key, None) is not None:
                self._caught_up.discard(key)
                self._repaired(partition)
            return
        self._watched[key] = partition
        if step is Next.REPLACE:
            self._caught_up.discard(key)
            self._emptied.add(key)
            self._replace(partition)
        elif step is not Next.NOTHING:
            self._want(key, LOST_DIRECTORY if step is Next.REPORT_LOST else self._own_directory)

    def fetched(self, partition: Partition, leader_mark: int, image: Image) -> None:
        """Handle a fetch response of a follower, after which the replica may be complete."""
        key = (partition.topic_id, partition.index)
        if key in self._watched and key not in self._caught_up and partition.log.end_offset >= leader_mark:
            self._caught_up.add(key)
            self._emptied.discard(key)
            topic = image.topics_by_id.get(partition.topic_id)
            if topic is not None:
                self.update(partition, topic.partitions[partition.index])

    def forget(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.index)
        self._caught_up.discard(key)
        self._emptied.discard(key)
        self._watched.pop(key, None)
        self._wanted.pop(key, None)

    def is_watched(self, partition: Partition) -> bool:
        return self._watched.get((partition.topic_id, partition.index)) is partition

    async def wait_losses_reported(self) -> None:
        """Wait until the image shows every damaged replica of this node as lost: before that, one might be elected."""
        while LOST_DIRECTORY in self._wanted.values():
            await pause(self._clock, POLL_S)

    @property
    def any_watched(self) -> bool:
        return bool(self._watched)

    def close(self) -> None:
        self._closed = True
        if self._task is not None:
            self._task.cancel()

    # -- the controller ------------------------------------------------------------------------

    def _want(self, key: tuple[UUID, int], directory: UUID) -> None:
        self._wanted[key] = directory
        if self._task is None and not self._closed:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        """Send requests until the image shows every change; `update` removes those that it shows."""
        try:
            while self._wanted:
                if self._broker_epoch() >= 0:
                    await self._send(dict(islice(self._wanted.items(), REPLICAS_PER_REQUEST_MAX)))
                await pause(self._clock, RETRY_S)
        except Exception:
            log.exception("the task that reports replica directories to the controller failed")
        finally:
            self._task = None

    async def _send(self, wanted: dict[tuple[UUID, int], UUID]) -> None:
        try:
            answer = await self._channel.ask(ApiKey.ASSIGN_REPLICAS_TO_DIRS, self._request(wanted), timeout_s=TIMEOUT_S)
        except PeerUnavailable as reason:
            log.info("cannot report replica directories to the controller: %s", reason)
            return
        if answer.error_code:
            log.warning("the controller rejected the directories of replicas: %s", answer.error_code.name)

    def _request(self, wanted: dict[tuple[UUID, int], UUID]) -> "AssignReplicasToDirsRequest":
        from kio.schema.assign_replicas_to_dirs.v0 import request as wire

        directories: dict[UUID, dict[UUID, list[int]]] = {}
        for (topic_id, index), directory in wanted.items():
            directories.setdefault(directory, {}).setdefault(topic_id, []).append(index)
        return wire.AssignReplicasToDirsRequest(
            broker_id=cast(Any, self._node_id),
            broker_epoch=cast(Any, self._broker_epoch()),
            directories=tuple(
                wire.DirectoryData(
                    id_=directory,
                    topics=tuple(
                        wire.TopicData(
                            topic_id=topic_id,
                            partitions=tuple(wire.PartitionData(partition_index=cast(Any, each)) for each in indexes),
                        )
                        for topic_id, indexes in topics.items()
                    ),
                )
                for directory, topics in directories.items()
            ),
        )
