"""Replicas that are damaged, or whose disk was lost: told to the controller, set aside, refilled, given back.

`next_step` decides; `Repairs` carries out, and asks the controller with AssignReplicasToDirs until the image
shows what was asked for. Nothing is removed before the replica is whole again. The table stands in
docs/internals/replication.md. Goes to storage/store.py through the `replace` it is given.
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
LOOK_S: Final = 0.02
RETRY_S: Final = 0.2
REPLICAS_PER_REQUEST_MAX: Final = 2_000
"""So many replicas are named in one request: the controller does not read more than a few thousand."""


class Next(Enum):
    NOTHING = "nothing"
    REPORT_LOST = "say that the replica is lost"
    REPLACE = "set the folder aside and begin with an empty log"
    REPORT_ASSIGNED = "say that the replica is whole, and in this node's directory"


def next_step(*, damaged: bool, directory: UUID, own_directory: UUID, has_other_leader: bool, caught_up: bool) -> Next:
    """What to do for a replica with others to repair it from. `caught_up`: it has all below its leader's mark."""
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
    """Where a replica lies; one that nobody has said anything about is as good as assigned."""
    slot = state.replicas.index(node_id)
    return state.directories[slot] if slot < len(state.directories) else UNASSIGNED_DIRECTORY


def is_usable(directory: UUID, log_dirs: tuple[UUID, ...]) -> bool:
    """Whether a replica in the directory may be relied on, given those that its broker has."""
    if directory == LOST_DIRECTORY:
        return False
    return directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY) or not log_dirs or directory in log_dirs


class Repairs:
    """The replicas of this node that are not where the image says, or not whole."""

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
        """Replicas that were set aside here and are not filled again: not whole, whatever an image says."""
        self._watched: dict[tuple[UUID, int], Partition] = {}
        self._wanted: dict[tuple[UUID, int], UUID] = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def update(self, partition: Partition, state: PartitionImage) -> None:
        """Decide anew about one replica; called when it is opened, damaged, or changed in the image."""
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
        """A follower has taken in an answer."""
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
        """Return once the image shows every damaged replica here as lost: until then one of them might be elected."""
        while LOST_DIRECTORY in self._wanted.values():
            await pause(self._clock, LOOK_S)

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
        """Ask until the image shows it: what is wanted is taken off the list by `look`."""
        try:
            while self._wanted:
                if self._broker_epoch() >= 0:
                    await self._ask(dict(islice(self._wanted.items(), REPLICAS_PER_REQUEST_MAX)))
                await pause(self._clock, RETRY_S)
        except Exception:
            log.exception("the directories of replicas are not told to the controller any more")
        finally:
            self._task = None

    async def _ask(self, wanted: dict[tuple[UUID, int], UUID]) -> None:
        try:
            answer = await self._channel.ask(ApiKey.ASSIGN_REPLICAS_TO_DIRS, self._request(wanted), timeout_s=TIMEOUT_S)
        except PeerUnavailable as reason:
            log.info("the controller was not told of directories: %s", reason)
            return
        if answer.error_code:
            log.warning("the controller refuses to assign directories: %s", answer.error_code.name)

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
