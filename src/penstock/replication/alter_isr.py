"""ISR proposals to the active controller: AlterPartition, with one request in flight.

Proposals that are made meanwhile go into the next requests. docs/internals/replication.md lists the meaning of each
response. Calls the controller through client/interfaces.py.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from penstock.client.channel import pause
from penstock.client.interfaces import ControllerChannel, PeerUnavailable
from penstock.model.ids import NodeId
from penstock.model.job import Job
from penstock.ports.clock import Clock
from penstock.replication.isr import Proposal
from penstock.replication.partition import Partition
from penstock.wire.api import ApiKey
from penstock.wire.codec import load_for_client

if TYPE_CHECKING:
    from kio.schema.alter_partition.v3.request import AlterPartitionRequest

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 5.0
RETRY_S: Final = 0.05
PROPOSALS_MAX: Final = 100
"""In one request: the controller takes about 20 microseconds for each."""
# INVALID_REQUEST, OPERATION_NOT_ATTEMPTED, INELIGIBLE_REPLICA: nothing was changed, and a retry would not help.
_WITHDRAWN: Final = frozenset({42, 55, 107})
# UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, UNKNOWN_TOPIC_ID, NEW_LEADER_ELECTED:
# an earlier attempt may have been committed, so both ISRs count until a later image arrives.
_WAITS_FOR_THE_IMAGE: Final = frozenset({3, 74, 95, 100, 108})


def loading() -> Job[None]:
    """Import and compile what the first proposal needs, off the event loop: that takes some milliseconds."""
    yield partial(load_for_client, ApiKey.ALTER_PARTITION)


class IsrChanges:
    """The proposals of one broker, sent by one task."""

    def __init__(
        self, channel: ControllerChannel, clock: Clock, *, node_id: NodeId, broker_epoch: Callable[[], int]
    ) -> None:
        self._channel = channel
        self._clock = clock
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._waiting: dict[Partition, Proposal] = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        # How many proposals the controller rejected; failures to reach it do not count.
        self.refused = 0

    def propose(self, partition: Partition, proposal: Proposal) -> None:
        self._waiting[partition] = proposal
        if self._task is None and not self._closed:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> None:
        self._closed = True
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while self._waiting:
                requested = dict(islice(self._waiting.items(), PROPOSALS_MAX))
                for partition in requested:
                    del self._waiting[partition]
                requested = {each: proposal for each, proposal in requested.items() if _is_current(each, proposal)}
                if requested and not await self._send(requested):
                    for partition, proposal in requested.items():
                        self._waiting.setdefault(partition, proposal)
                    await pause(self._clock, RETRY_S)
        except Exception:
            log.exception("the task that sends ISR proposals failed")
        finally:
            self._task = None

    async def _send(self, requested: dict[Partition, Proposal]) -> bool:
        """Send proposals and return whether there was a response; those that need a retry are queued again."""
        try:
            answer = await self._channel.ask(ApiKey.ALTER_PARTITION, self._request(requested), timeout_s=TIMEOUT_S)
        except PeerUnavailable as reason:
            log.info("cannot send ISR proposals to the controller: %s", reason)
            return False
        if answer.error_code:
            log.warning("the controller rejected ISR proposals: %s", answer.error_code.name)
            self.refused += len(requested)
            return False
        rows = {(topic.topic_id, row.partition_index): row for topic in answer.topics for row in topic.partitions}
        for partition, proposal in requested.items():
            row = rows.get((partition.topic_id, partition.index))
            if row is not None:
                self._apply_answer(partition, proposal, row)
            elif _is_current(partition, proposal):
                self._waiting.setdefault(partition, proposal)
        return True

    def _apply_answer(self, partition: Partition, proposal: Proposal, row: Any) -> None:
        code = int(row.error_code)
        self.refused += code != 0
        if not _is_current(partition, proposal):
            return
        if code == 0:
            isr = tuple(NodeId(each) for each in row.isr)
            is_same_epoch = row.leader_id == self._node_id and row.leader_epoch == partition.leader_epoch
            # Without a member, the high watermark may pass what that member holds. It may be eligible to lead if
            # min.insync.replicas was raised, which only the image tells this node.
            if is_same_epoch and set(isr).issuperset(partition.isr):
                partition.apply_isr(isr, partition.replicas, row.partition_epoch)
        elif code in _WITHDRAWN:
            partition.withdraw(proposal)
        elif code not in _WAITS_FOR_THE_IMAGE:
            self._waiting.setdefault(partition, proposal)
        if code:
            log.info("%s-%d: the controller rejected the ISR %s: %s",
                     partition.topic, partition.index, list(proposal.isr), row.error_code.name)  # fmt: skip

    def _request(self, requested: dict[Partition, Proposal]) -> "AlterPartitionRequest":
        from kio.schema.alter_partition.v3 import request as wire

        topics: dict[Any, list[wire.PartitionData]] = {}
        for partition, proposal in requested.items():
            own_epoch = self._broker_epoch()
            members: Iterable[tuple[NodeId, int]] = zip(proposal.isr, proposal.broker_epochs, strict=True)
            topics.setdefault(partition.topic_id, []).append(
                wire.PartitionData(
                    partition_index=cast(Any, partition.index),
                    leader_epoch=cast(Any, proposal.leader_epoch),
                    new_isr_with_epochs=tuple(
                        wire.BrokerState(
                            broker_id=cast(Any, node_id),
                            broker_epoch=cast(Any, own_epoch if node_id == self._node_id else epoch),
                        )
                        for node_id, epoch in members
                    ),
                    partition_epoch=cast(Any, proposal.partition_epoch),
                )
            )
        return wire.AlterPartitionRequest(
            broker_id=cast(Any, self._node_id),
            broker_epoch=cast(Any, self._broker_epoch()),
            topics=tuple(wire.TopicData(topic_id=each, partitions=tuple(rows)) for each, rows in topics.items()),
        )


def _is_current(partition: Partition, proposal: Proposal) -> bool:
    return partition.leadership is not None and partition.leadership.proposal is proposal
