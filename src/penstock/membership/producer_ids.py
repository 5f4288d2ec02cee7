"""The allocation of producer ids, each of which is used once in the life of the cluster.

A node gets ids in blocks from the active controller, before it uses the first id of a block. Unused ids of a
stopped node are lost, which is acceptable: there are 2^63 of them. Calls controller/producer_ids.py through
client/channel.py. Refuses: RequestTimedOut when no controller answers, and what the controller refuses.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

from penstock.client.interfaces import ControllerChannel, PeerUnavailable
from penstock.model.errors import NO_ERROR, RequestTimedOut, UnknownProducerId
from penstock.model.ids import NodeId, ProducerId
from penstock.wire.api import ApiKey

ASK_S_MAX: Final = 10.0


class ProducerIds:
    """This node's block of ids; requests a new block from the controller when it is used up."""

    def __init__(self, channel: ControllerChannel, node_id: NodeId, broker_epoch: Callable[[], int]) -> None:
        self._channel = channel
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._next = 0
        self._end = 0
        self._taking_block = asyncio.Lock()

    async def take(self) -> ProducerId:
        """Return an id that is used nowhere else."""
        while self._next == self._end:
            async with self._taking_block:
                # Another request may have fetched a block while this one waited for the lock.
                if self._next == self._end:
                    await self._take_block()
        taken = ProducerId(self._next)
        self._next += 1
        return taken

    async def _take_block(self) -> None:
        from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest

        request = AllocateProducerIdsRequest(
            broker_id=cast(Any, self._node_id), broker_epoch=cast(Any, self._broker_epoch())
        )
        try:
            answer = await self._channel.ask(ApiKey.ALLOCATE_PRODUCER_IDS, request, timeout_s=ASK_S_MAX)
        except PeerUnavailable as problem:
            raise RequestTimedOut(f"No controller has allocated producer ids: {problem}") from problem
        if int(answer.error_code) == UnknownProducerId.code:
            raise UnknownProducerId("All producer ids have been allocated.")
        if int(answer.error_code) != NO_ERROR:
            raise RequestTimedOut(f"The controller cannot allocate producer ids: {answer.error_code.name}")
        self._next = answer.producer_id_start
        self._end = answer.producer_id_start + answer.producer_id_len
