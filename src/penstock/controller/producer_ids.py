"""Hands out producer ids, each one once in the life of the cluster.

A node takes ids in blocks; a block is taken by committing that everything below its end is
gone, before the first id of it is used. What a node has not handed out when it stops is lost,
which is cheap: there are 2^63 of them. Refuses when those are used up: UnknownProducerId.
"""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.controller.decision import Decision
from penstock.metadata.image import Image
from penstock.metadata.records import ProducerIdsRecord
from penstock.model.errors import UnknownProducerId
from penstock.model.ids import NodeId, ProducerId

if TYPE_CHECKING:
    from penstock.controller.controller import Controller

BLOCK_SIZE: Final = 1000
PRODUCER_ID_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Block:
    """The ids from `first` up to but not with `end`."""

    first: ProducerId
    end: ProducerId


def decide_block(image: Image, node_id: NodeId) -> Decision[Block]:
    """Give the node the next block of ids."""
    first = image.next_producer_id
    if first > PRODUCER_ID_MAX - BLOCK_SIZE:
        raise UnknownProducerId("All producer ids have been given out.")
    end = ProducerId(first + BLOCK_SIZE)
    broker = image.brokers.get(node_id)
    record = ProducerIdsRecord(
        broker_id=node_id, broker_epoch=-1 if broker is None else broker.epoch, next_producer_id=end
    )
    return Decision((record,), Block(first, end))


class ProducerIds:
    """This node's share of the ids; asks the controller for a block when it has none left."""

    def __init__(self, controller: "Controller", node_id: NodeId) -> None:
        self._controller = controller
        self._node_id = node_id
        self._next = 0
        self._end = 0
        self._taking_block = asyncio.Lock()

    async def take(self) -> ProducerId:
        """Return an id that nobody else has or will get."""
        while self._next == self._end:
            async with self._taking_block:
                # Another request may have brought the block while this one waited its turn.
                if self._next == self._end:
                    block = await self._controller.run(lambda image: decide_block(image, self._node_id))
                    self._next, self._end = block.first, block.end
        taken = ProducerId(self._next)
        self._next += 1
        return taken
