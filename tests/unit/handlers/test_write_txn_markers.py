"""WriteTxnMarkers through its handler."""

from typing import Any

import pytest
from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

from penstock.handlers import (
    write_txn_markers,
)
from penstock.model.errors import InvalidProducerEpoch
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode


@pytest.mark.parametrize("version", [1, 2])
async def test_markers_are_written_to_the_partitions_that_accept_them(version: int) -> None:
    node = FakeNode()
    node.marker_writer.refusals["u"] = InvalidProducerEpoch()
    marker: Any = WritableTxnMarker(
        producer_id=7,  # type: ignore[arg-type]
        producer_epoch=3,  # type: ignore[arg-type]
        transaction_result=True,
        coordinator_epoch=5,  # type: ignore[arg-type]
        transaction_version=2 if version == 2 else 0,  # type: ignore[arg-type]
        topics=tuple(WritableTxnMarkerTopic(name=name, partition_indexes=(0, 1)) for name in "tu"),  # type: ignore[arg-type]
    )
    body = WriteTxnMarkersRequest(markers=(marker,))
    reply = await node.ask(write_txn_markers.handle, ApiKey.WRITE_TXN_MARKERS, body, version=version)
    (answered,) = reply.markers
    assert answered.producer_id == 7
    assert {topic.name: [each.error_code for each in topic.partitions] for topic in answered.topics} == {
        "t": [0, 0],
        "u": [47, 47],
    }
    assert node.marker_writer.written == [("t", index, 7, 3, 5, True, 2 if version == 2 else 0) for index in (0, 1)]
