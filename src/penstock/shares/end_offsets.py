"""End offsets of partitions, from their leaders on this or other nodes.

Calls replication/partition.py, or through `Peers` handlers/list_offsets.py on the leader's node. Returns None where
the leader cannot be reached.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, cast
from uuid import UUID

from penstock.client.interfaces import Peers, PeerUnavailable
from penstock.metadata.image import Image
from penstock.model.errors import Refusal
from penstock.model.ids import NO_NODE, NodeId
from penstock.replication.replicas import Replicas
from penstock.wire.api import ApiKey

TIMEOUT_S: Final = 5.0
PURPOSE: Final = "share-state"


class EndOffsets:
    def __init__(self, *, node_id: NodeId, image: Callable[[], Image], peers: Peers, replicas: Replicas) -> None:
        self._node_id = node_id
        self._image = image
        self._peers = peers
        self._replicas = replicas

    async def find(self, topic_id: UUID, index: int) -> int | None:
        """Return the high watermark of a partition, or None if it is not known."""
        topic = self._image().topics_by_id.get(topic_id)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        leader = topic.partitions[index].leader
        if leader == self._node_id:
            partition = self._replicas.find(topic.name, index)
            try:
                return None if partition is None else partition.end_for_consumers(committed_only=False)
            except Refusal:
                return None
        if leader == NO_NODE:
            return None
        try:
            answer = await self._peers.ask(
                leader, ApiKey.LIST_OFFSETS, _request(topic.name, index), timeout_s=TIMEOUT_S, purpose=PURPOSE
            )
        except PeerUnavailable:
            return None
        found = answer.topics[0].partitions[0]
        return None if found.error_code.value else int(found.offset)


def _request(name: str, index: int) -> Any:
    from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

    partition = ListOffsetsPartition(
        partition_index=cast(Any, index), current_leader_epoch=cast(Any, -1), timestamp=cast(Any, -1)
    )
    return ListOffsetsRequest(
        replica_id=cast(Any, -1),
        isolation_level=cast(Any, 0),
        topics=(ListOffsetsTopic(name=cast(Any, name), partitions=(partition,)),),
        timeout=cast(Any, timedelta(seconds=TIMEOUT_S)),
    )
