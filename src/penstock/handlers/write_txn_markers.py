"""WriteTxnMarkers, versions 1-2: ends transactions in partitions that this node leads.

Sent by coordinators on other nodes, and by administrators for a transaction that no coordinator knows.
v2 adds the transaction version of the coordinator. Goes to transactions/marker_writer.py. Refuses, per partition:
UNKNOWN_TOPIC_OR_PARTITION, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, and what every write refuses.
"""

import asyncio

from kio.schema.errors import ErrorCode
from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from kio.schema.write_txn_markers.v2.response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, failed, int32
from penstock.model.errors import Refusal
from penstock.scheduling.scheduler import SLICE_COST


async def handle(context: Context, request: Request) -> WriteTxnMarkersResponse:
    body: WriteTxnMarkersRequest = request.body
    # Concurrently: a partition that lacks replicas must not delay the markers of others.
    return WriteTxnMarkersResponse(
        markers=tuple(await asyncio.gather(*(_write_marker(context, marker) for marker in body.markers)))
    )


async def _write_marker(context: Context, marker: WritableTxnMarker) -> WritableTxnMarkerResult:
    topics = await asyncio.gather(*(_write_to_topic(context, marker, topic) for topic in marker.topics))
    return WritableTxnMarkerResult(producer_id=marker.producer_id, topics=tuple(topics))


async def _write_to_topic(
    context: Context, marker: WritableTxnMarker, topic: WritableTxnMarkerTopic
) -> WritableTxnMarkerTopicResult:
    errors: list[ErrorCode] = []
    for start in range(0, len(topic.partition_indexes), SLICE_COST):
        indexes = topic.partition_indexes[start : start + SLICE_COST]
        errors += await asyncio.gather(*(_write(context, marker, topic.name, index) for index in indexes))
    return WritableTxnMarkerTopicResult(
        name=topic.name,
        partitions=tuple(
            WritableTxnMarkerPartitionResult(partition_index=int32(index), error_code=error)
            for index, error in zip(topic.partition_indexes, errors, strict=True)
        ),
    )


async def _write(context: Context, marker: WritableTxnMarker, topic: str, index: int) -> ErrorCode:
    try:
        await context.marker_writer.write(
            topic,
            index,
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.transaction_result,
            marker.transaction_version,
        )
    except Refusal as refusal:
        return failed(refusal)
    return NO_ERROR
