import pytest

from penstock.controller.producer_ids import Block, decide_block
from penstock.metadata.records import ProducerIdsRecord
from penstock.model.errors import StaleBrokerEpoch, UnknownProducerId
from penstock.model.ids import NodeId, ProducerId
from tests.unit.controller.cluster import apply, cluster

ONE = NodeId(1)


def test_a_block_begins_where_the_last_one_ended() -> None:
    first = decide_block(cluster(), ONE, 1)
    assert first.reply == Block(ProducerId(0), ProducerId(1000))
    assert first.records == (ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=1000),)
    second = decide_block(apply(cluster(), first.records), ONE, 1)
    assert second.reply == Block(ProducerId(1000), ProducerId(2000))


def test_exhausted_ids_are_refused() -> None:
    image = apply(cluster(), [ProducerIdsRecord(broker_id=1, next_producer_id=2**63 - 500)])
    with pytest.raises(UnknownProducerId):
        decide_block(image, ONE, 1)


def test_a_process_with_an_old_epoch_gets_no_ids() -> None:
    with pytest.raises(StaleBrokerEpoch):
        decide_block(cluster(), ONE, 0)
