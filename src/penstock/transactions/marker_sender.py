"""Delivery of markers to partition leaders: written directly on this node, or sent to the leader's node.

The connection between the coordinator and the cluster. Markers for a node with a request in flight
are sent together in the next request. Calls marker_writer.py and, through `Peers`, handlers/write_txn_markers.py
of the other node. Refuses: LeaderNotAvailable, and the errors of the partition's leader; the caller retries.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

from penstock.client.interfaces import Peers, PeerUnavailable
from penstock.metadata.delta import Delta
from penstock.metadata.image import Image
from penstock.model.errors import (
    InvalidProducerEpoch,
    LeaderNotAvailable,
    Refusal,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
)
from penstock.model.ids import NO_NODE, NodeId, TopicName
from penstock.transactions.marker_driver import WriteMarker
from penstock.wire.api import ApiKey

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 30.0
PURPOSE: Final = "markers"
# The caller handles these errors; it retries all others.
_KNOWN: Final = {refusal.code: refusal for refusal in (InvalidProducerEpoch, TransactionCoordinatorFenced)}


class _QueuedMarker(NamedTuple):
    """A marker for a partition on another node."""

    topic: str
    partition: int
    producer_id: int
    epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int
    done: "asyncio.Future[int]"


class MarkerSender:
    def __init__(self, *, node_id: NodeId, image: Callable[[], Image], peers: Peers, write_here: WriteMarker) -> None:
        self._node_id = node_id
        self._image = image
        self._peers = peers
        self._write_here = write_here
        self._queued: dict[NodeId, list[_QueuedMarker]] = {}
        self._in_flight: dict[NodeId, list[_QueuedMarker]] = {}
        self._senders: dict[NodeId, asyncio.Task[None]] = {}

    async def write(
        self,
        topic: str,
        partition: int,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        commit: bool,
        transaction_version: int,
    ) -> None:
        leader = self._leader(topic, partition)
        if leader == self._node_id:
            await self._write_here(topic, partition, producer_id, epoch, coordinator_epoch, commit, transaction_version)
            return
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        queued = _QueuedMarker(
            topic, partition, producer_id, epoch, coordinator_epoch, commit, transaction_version, done
        )
        self._queued.setdefault(leader, []).append(queued)
        if leader not in self._senders:
            self._senders[leader] = asyncio.ensure_future(self._send_all(leader))
        code = await done
        if code:
            raise _KNOWN.get(code, Refusal)(f"node {leader} answered with error code {code}")

    def close(self) -> None:
        for task in self._senders.values():
            task.cancel()

    def image_changed(self, delta: Delta, image: Image) -> None:
        """Stop waiting for nodes that no longer lead the partition, as they may be paused or partitioned off."""
        for markers in (self._queued, self._in_flight):
            for leader, batch in markers.items():
                for each in batch:
                    partition = image.partition(TopicName(each.topic), each.partition)
                    if partition is None or partition.leader != leader:
                        _settle(each, LeaderNotAvailable.code)

    def _leader(self, topic: str, index: int) -> NodeId:
        found = self._image().topics.get(TopicName(topic))
        if found is None or index >= len(found.partitions):
            raise UnknownTopicOrPartition
        leader = found.partitions[index].leader
        if leader == NO_NODE:
            raise LeaderNotAvailable
        return leader

    async def _send_all(self, leader: NodeId) -> None:
        try:
            while batch := self._queued.pop(leader, None):
                # Skip markers whose caller has stopped waiting.
                self._in_flight[leader] = [each for each in batch if not each.done.done()]
                await self._send(leader, self._in_flight[leader])
        finally:
            self._in_flight.pop(leader, None)
            del self._senders[leader]

    async def _send(self, leader: NodeId, batch: list[_QueuedMarker]) -> None:
        if not batch:
            return
        try:
            answer = await self._peers.ask(
                leader, ApiKey.WRITE_TXN_MARKERS, _request(batch), timeout_s=TIMEOUT_S, purpose=PURPOSE
            )
            codes = [marker.topics[0].partitions[0].error_code.value for marker in answer.markers]
        except PeerUnavailable:
            codes = []
        except Exception:
            log.exception("node %d sent an invalid WriteTxnMarkers response", leader)
            codes = []
        # The caller retries a marker without a result. If it waited forever, its transaction would stay open.
        for position, each in enumerate(batch):
            _settle(each, codes[position] if position < len(codes) else LeaderNotAvailable.code)


def _settle(queued: _QueuedMarker, code: int) -> None:
    if not queued.done.done():
        queued.done.set_result(code)


def _request(batch: list[_QueuedMarker]) -> Any:
    from kio.schema.write_txn_markers.v2.request import (
        WritableTxnMarker,
        WritableTxnMarkerTopic,
        WriteTxnMarkersRequest,
    )

    return WriteTxnMarkersRequest(
        markers=tuple(
            WritableTxnMarker(
                producer_id=cast(Any, each.producer_id),
                producer_epoch=cast(Any, each.epoch),
                transaction_result=each.commit,
                topics=(
                    WritableTxnMarkerTopic(name=cast(Any, each.topic), partition_indexes=cast(Any, (each.partition,))),
                ),
                coordinator_epoch=cast(Any, each.coordinator_epoch),
                transaction_version=cast(Any, each.transaction_version),
            )
            for each in batch
        )
    )
