import asyncio
from collections.abc import Sequence

import pytest

from penstock.controller.controller import Controller
from penstock.controller.producer_ids import BLOCK_SIZE, Block, ProducerIds, decide_block
from penstock.metadata.image import EMPTY, Image
from penstock.metadata.records import MetadataRecord, ProducerIdsRecord
from penstock.model.errors import UnknownProducerId
from penstock.model.ids import NodeId, ProducerId
from tests.unit.controller.cluster import apply, cluster

ONE = NodeId(1)


class InstantQuorum:
    def __init__(self, image: Image) -> None:
        self.image = image
        self.commits = 0

    async def commit(self, records: Sequence[MetadataRecord]) -> None:
        await asyncio.sleep(0)
        self.commits += 1
        self.image = apply(self.image, records)


def test_a_block_begins_where_the_last_one_ended() -> None:
    first = decide_block(cluster(), ONE)
    assert first.reply == Block(ProducerId(0), ProducerId(1000))
    assert first.records == (ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=1000),)
    second = decide_block(apply(cluster(), first.records), ONE)
    assert second.reply == Block(ProducerId(1000), ProducerId(2000))


def test_ids_that_are_used_up_are_refused() -> None:
    image = apply(EMPTY, [ProducerIdsRecord(broker_id=1, next_producer_id=2**63 - 500)])
    with pytest.raises(UnknownProducerId):
        decide_block(image, ONE)


async def test_ids_are_handed_out_once_each_across_blocks_and_callers() -> None:
    quorum = InstantQuorum(cluster())
    ids = ProducerIds(Controller(quorum), ONE)
    taken = await asyncio.gather(*(ids.take() for _ in range(2 * BLOCK_SIZE + 1)))
    assert sorted(taken) == list(range(2 * BLOCK_SIZE + 1))
    assert quorum.commits == 3


async def test_a_node_that_starts_again_begins_a_new_block() -> None:
    quorum = InstantQuorum(cluster())
    assert await ProducerIds(Controller(quorum), ONE).take() == 0
    assert await ProducerIds(Controller(quorum), ONE).take() == BLOCK_SIZE
