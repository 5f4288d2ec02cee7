"""Carries proposals for in-sync sets to the active controller: AlterPartition, one request under way.

Whatever is proposed meanwhile goes with the next one. What each answer means stands in
docs/internals/replication.md. Calls go to the controller through client/interfaces.py.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, cast

from penstock.client.channel import pause
from penstock.client.interfaces import ControllerChannel, PeerUnavailable
from penstock.model.ids import NodeId
from penstock.ports.clock import Clock
from penstock.replication.isr import Proposal
from penstock.replication.partition import Partition
from penstock.wire.api import ApiKey

if TYPE_CHECKING:
    from kio.schema.alter_partition.v3.request import AlterPartitionRequest

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 5.0
RETRY_S: Final = 0.05
# INVALID_REQUEST, OPERATION_NOT_ATTEMPTED, INELIGIBLE_REPLICA: nothing was changed, and asking again would not help.
_TAKEN_BACK: Final = frozenset({42, 55, 107})
# UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, UNKNOWN_TOPIC_ID, NEW_LEADER_ELECTED:
# an earlier try may have been committed, so both sets count until a later image comes.
_WAITS_FOR_THE_IMAGE: Final = frozenset({3, 74, 95, 100, 108})


class IsrChanges:
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
        # How many proposals were refused since the start; a controller that cannot be reached refuses nothing.
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
                asked, self._waiting = self._waiting, {}
                asked = {each: proposal for each, proposal in asked.items() if _is_current(each, proposal)}
                if asked and not await self._ask(asked):
                    for partition, proposal in asked.items():
                        self._waiting.setdefault(partition, proposal)
                    await pause(self._clock, RETRY_S)
        except Exception:
            log.exception("proposals for in-sync sets are not carried on with")
        finally:
            self._task = None

    async def _ask(self, asked: dict[Partition, Proposal]) -> bool:
        """Whether there was an answer. Parts that must be asked for again are waiting again by then."""
        try:
            answer = await self._channel.ask(ApiKey.ALTER_PARTITION, self._request(asked), timeout_s=TIMEOUT_S)
        except PeerUnavailable as reason:
            log.info("the controller was not asked for other in-sync sets: %s", reason)
            return False
        if answer.error_code:
            log.warning("the controller refuses to change in-sync sets: %s", answer.error_code.name)
            self.refused += len(asked)
            return False
        rows = {(topic.topic_id, row.partition_index): row for topic in answer.topics for row in topic.partitions}
        for partition, proposal in asked.items():
            row = rows.get((partition.topic_id, partition.index))
            if row is not None:
                self._answered(partition, proposal, row)
            elif _is_current(partition, proposal):
                self._waiting.setdefault(partition, proposal)
        return True

    def _answered(self, partition: Partition, proposal: Proposal, row: Any) -> None:
        code = int(row.error_code)
        self.refused += code != 0
        if not _is_current(partition, proposal):
            return
        if code == 0:
            if row.leader_id == self._node_id and row.leader_epoch == partition.leader_epoch:
                isr = tuple(NodeId(each) for each in row.isr)
                partition.apply_isr(isr, partition.replicas, row.partition_epoch)
        elif code in _TAKEN_BACK:
            partition.withdraw(proposal)
        elif code not in _WAITS_FOR_THE_IMAGE:
            self._waiting.setdefault(partition, proposal)
        if code:
            log.info("%s-%d: the in-sync set %s is refused: %s",
                     partition.topic, partition.index, list(proposal.isr), row.error_code.name)  # fmt: skip

    def _request(self, asked: dict[Partition, Proposal]) -> "AlterPartitionRequest":
        from kio.schema.alter_partition.v3 import request as wire

        topics: dict[Any, list[wire.PartitionData]] = {}
        for partition, proposal in asked.items():
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
