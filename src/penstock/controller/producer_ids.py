"""Decisions on producer ids: blocks for brokers, in which each id is used once in the life of the cluster.

Pure. A block is allocated by committing its end, before its first id is used.
Refuses: StaleBrokerEpoch, and UnknownProducerId when all 2^63 are used up.
"""

from dataclasses import dataclass
from typing import Final

from penstock.controller.brokers import check_broker_epoch
from penstock.controller.decision import ControllerDecision
from penstock.metadata.image import Image
from penstock.metadata.records import ProducerIdsRecord
from penstock.model.errors import UnknownProducerId
from penstock.model.ids import NodeId, ProducerId

BLOCK_SIZE: Final = 1000
PRODUCER_ID_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Block:
    """The ids from `first` up to, but not including, `end`."""

    first: ProducerId
    end: ProducerId


def decide_block(image: Image, node_id: NodeId, broker_epoch: int) -> ControllerDecision[Block]:
    """Allocate the next block of ids to the broker."""
    check_broker_epoch(image, node_id, broker_epoch)
    first = image.next_producer_id
    if first > PRODUCER_ID_MAX - BLOCK_SIZE:
        raise UnknownProducerId("All producer ids have been allocated.")
    end = ProducerId(first + BLOCK_SIZE)
    record = ProducerIdsRecord(broker_id=node_id, broker_epoch=broker_epoch, next_producer_id=end)
    return ControllerDecision((record,), Block(first, end))
