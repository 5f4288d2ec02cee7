"""Requests to the share coordinator, on this or another node.

The coordinator of a share partition is the leader of its partition of `__share_group_state`. A request that finds no
coordinator is repeated for a few seconds, which covers a change of leaders; the reply then says why it failed.
Calls service.py, or through `Peers` the handlers of the APIs 83 to 87 on the coordinator's node. Refuses nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from penstock.client.interfaces import Peers, PeerUnavailable
from penstock.coordinator.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator
from penstock.coordinator.keys import partition_of
from penstock.metadata.image import Image
from penstock.model.ids import NO_NODE, NodeId
from penstock.model.topic import SHARE_GROUP_STATE
from penstock.ports.clock import Clock
from penstock.shares.commands import DeleteState, InitializeState, ReadState, ReadSummary, StateReply, WriteState
from penstock.shares.keys import coordinator_key
from penstock.shares.service import ShareCoordinator
from penstock.shares.states import StateRange
from penstock.wire.api import ApiKey

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 5.0
RETRY_S: Final = 0.05
RETRY_S_MAX: Final = 1.0
PURPOSE: Final = "share-state"
RETRIED: Final = frozenset({CoordinatorLoadInProgress.code, CoordinatorNotAvailable.code, NotCoordinator.code})

Command = InitializeState | ReadState | WriteState | DeleteState | ReadSummary


class ShareStateClient:
    def __init__(
        self,
        *,
        node_id: NodeId,
        image: Callable[[], Image],
        peers: Peers,
        clock: Clock,
        here: ShareCoordinator,
        create_topic: Callable[[], Awaitable[object]],
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._peers = peers
        self._clock = clock
        self._here = here
        self._create_topic = create_topic

    async def ask(self, command: Command, *, timeout_s: float = TIMEOUT_S) -> StateReply:
        """Return the coordinator's reply; after the timeout, the error that prevented one."""
        deadline = self._clock.monotonic() + timeout_s
        delay = RETRY_S
        while True:
            reply = await self._attempt(command)
            if reply.error not in RETRIED or self._clock.monotonic() + delay > deadline:
                return reply
            await self.pause(delay)
            delay = min(delay * 2, RETRY_S_MAX)

    def write(self, command: WriteState, done: Callable[[StateReply], None]) -> bool:
        """Write once, without a task, if this node is the coordinator; return False if it is not.

        `done` gets the reply, maybe before this returns; one of `RETRIED` is left to the caller.
        """
        if self._coordinator(command) != self._node_id:
            return False
        self._here.write(command, done)
        return True

    async def pause(self, delay: float) -> None:
        """Wait for some seconds."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(delay, lambda: None if woken.done() else woken.set_result(None))
        try:
            await woken
        finally:
            timer.cancel()

    async def _attempt(self, command: Command) -> StateReply:
        leader = self._coordinator(command)
        if leader is None:
            if isinstance(command, InitializeState):
                await self._create_topic()
            return StateReply(error=CoordinatorNotAvailable.code, message=CoordinatorNotAvailable.meaning)
        if leader == self._node_id:
            return await self._here.ask(command.key, command)
        if leader == NO_NODE:
            return StateReply(error=CoordinatorNotAvailable.code, message=CoordinatorNotAvailable.meaning)
        return await self._send(leader, command)

    def _coordinator(self, command: Command) -> NodeId | None:
        topic = self._image().topics.get(SHARE_GROUP_STATE)
        if topic is None:
            return None
        return topic.partitions[partition_of(coordinator_key(command.key), len(topic.partitions))].leader

    async def _send(self, leader: NodeId, command: Command) -> StateReply:
        api_key, request = _request(command)
        try:
            answer = await self._peers.ask(leader, api_key, request, timeout_s=TIMEOUT_S, purpose=PURPOSE)
            return _reply(answer.results[0].partitions[0])
        except PeerUnavailable:
            pass
        except Exception:
            log.exception("node %d sent an invalid response about share-group state", leader)
        return StateReply(error=CoordinatorNotAvailable.code, message=CoordinatorNotAvailable.meaning)


def _reply(result: Any) -> StateReply:
    ranges = getattr(result, "state_batches", ())
    return StateReply(
        error=result.error_code.value,
        message=result.error_message,
        state_epoch=getattr(result, "state_epoch", 0),
        leader_epoch=getattr(result, "leader_epoch", 0),
        start_offset=getattr(result, "start_offset", -1),
        complete_count=getattr(result, "delivery_complete_count", -1),
        ranges=tuple(
            StateRange(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in ranges
        ),
    )


def _request(command: Command) -> tuple[int, Any]:
    """Return the API and the request for one command. The schemas are imported only by nodes of a cluster."""
    group, topic_id, index = command.key
    partition = cast(Any, index)
    if isinstance(command, WriteState):
        from kio.schema.write_share_group_state.v1 import request as write

        data: Any = write.PartitionData(
            partition=partition,
            state_epoch=cast(Any, command.state_epoch),
            leader_epoch=cast(Any, command.leader_epoch),
            start_offset=cast(Any, command.start_offset),
            delivery_complete_count=cast(Any, command.complete_count),
            state_batches=tuple(
                write.StateBatch(
                    first_offset=cast(Any, each.first),
                    last_offset=cast(Any, each.last),
                    delivery_state=cast(Any, int(each.state)),
                    delivery_count=cast(Any, each.delivery_count),
                )
                for each in command.ranges
            ),
        )
        topics: Any = (write.WriteStateData(topic_id=topic_id, partitions=(data,)),)
        return ApiKey.WRITE_SHARE_GROUP_STATE, write.WriteShareGroupStateRequest(group_id=group, topics=topics)
    if isinstance(command, ReadState):
        from kio.schema.read_share_group_state.v0 import request as read

        data = read.PartitionData(partition=partition, leader_epoch=cast(Any, command.leader_epoch))
        topics = (read.ReadStateData(topic_id=topic_id, partitions=(data,)),)
        return ApiKey.READ_SHARE_GROUP_STATE, read.ReadShareGroupStateRequest(group_id=group, topics=topics)
    if isinstance(command, InitializeState):
        from kio.schema.initialize_share_group_state.v0 import request as initialize

        data = initialize.PartitionData(
            partition=partition,
            state_epoch=cast(Any, command.state_epoch),
            start_offset=cast(Any, command.start_offset),
        )
        topics = (initialize.InitializeStateData(topic_id=topic_id, partitions=(data,)),)
        return ApiKey.INITIALIZE_SHARE_GROUP_STATE, initialize.InitializeShareGroupStateRequest(
            group_id=group, topics=topics
        )
    if isinstance(command, DeleteState):
        from kio.schema.delete_share_group_state.v0 import request as delete

        topics = (delete.DeleteStateData(topic_id=topic_id, partitions=(delete.PartitionData(partition=partition),)),)
        return ApiKey.DELETE_SHARE_GROUP_STATE, delete.DeleteShareGroupStateRequest(group_id=group, topics=topics)
    from kio.schema.read_share_group_state_summary.v1 import request as summary

    data = summary.PartitionData(partition=partition, leader_epoch=cast(Any, -1))
    topics = (summary.ReadStateSummaryData(topic_id=topic_id, partitions=(data,)),)
    return ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, summary.ReadShareGroupStateSummaryRequest(
        group_id=group, topics=topics
    )
