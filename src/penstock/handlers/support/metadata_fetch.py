"""Fetch of the metadata log by voters and observers; called by fetch.py, which serves every other topic.

Needs version 13 or later, because this log is identified by its id. The raft core decides what to send and when; a
fetch waits for new records like any other. Records are sent as slices of the log's files. Goes to
metadata/messenger.py. Refuses: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST; NOT_LEADER_OR_FOLLOWER and similar errors
come from the core.
"""

from typing import Any

from penstock.handlers.support.context import Context
from penstock.handlers.support.quorum_checks import check_cluster, check_peer
from penstock.handlers.support.reply import Parked, Parts
from penstock.metadata import voter_wire
from penstock.metadata.messenger import endpoints_of
from penstock.model.errors import Corruption, InvalidRequest, Refusal
from penstock.model.ids import NO_NODE, LeaderEpoch, NodeId, Offset
from penstock.ports.network import FileSlice
from penstock.raft.messages import FetchRequest, FetchResponse
from penstock.wire import codec
from penstock.wire.frame import Header
from penstock.wire.hot.fetch import PartitionAnswer, write_response
from penstock.wire.hot.produce import NodeEndpoint

METADATA_TOPIC = voter_wire.METADATA_TOPIC_ID.bytes


def handle(context: Context, frame: memoryview, header: Header) -> Parked:
    """Answer a fetch with a replica id whose first topic is the metadata log."""
    parked = Parked()
    try:
        entity = codec.read_request(header.api_key, header.version, frame[header.body_position :])
        check_cluster(context, entity.cluster_id)
        source, make = _read(entity)
        check_peer(context, source)
    except Refusal as refusal:
        parked.ready(write_response(header.version, header.correlation_id, (), error_code=refusal.code))
        return parked
    except Corruption:
        parked.ready(write_response(header.version, header.correlation_id, (), error_code=InvalidRequest.code))
        return parked
    context.quorum.voter_registry.note_directory(source, make(0).disk)
    context.quorum.messenger.hear_fetch(
        source, make, lambda response, records: parked.ready(_answer(context, header, response, records))
    )
    return parked


def _read(entity: Any) -> tuple[NodeId, Any]:
    partition = voter_wire.only_partition(entity.topics)
    # Before version 15 the replica id is an untagged field.
    source = entity.replica_state.replica_id if hasattr(entity, "replica_state") else entity.replica_id

    def make(request_id: int) -> FetchRequest:
        return FetchRequest(
            epoch=LeaderEpoch(partition.current_leader_epoch),
            request_id=request_id,
            fetch_offset=Offset(partition.fetch_offset),
            last_fetched_epoch=LeaderEpoch(partition.last_fetched_epoch),
            high_watermark=Offset(getattr(partition, "high_watermark", 2**63 - 1)),
            disk=getattr(partition, "replica_directory_id", None),
        )

    return NodeId(source), make


def _answer(context: Context, header: Header, response: FetchResponse, records: FileSlice | None) -> Parts:
    answer = PartitionAnswer(
        METADATA_TOPIC,
        0,
        voter_wire.FETCH_ERRORS[response.error],
        response.high_watermark,
        response.high_watermark,
        context.quorum.log.start_offset,
        records,
    )
    answer.current_leader = (NO_NODE if response.leader is None else response.leader, response.epoch)
    if response.diverging is not None:
        answer.diverging = (response.diverging.epoch, response.diverging.end_offset)
    if response.snapshot is not None:
        answer.snapshot = (response.snapshot.end_offset, response.snapshot.epoch)
    endpoints: list[NodeEndpoint] = [
        (node, host, port, None) for node, (host, port) in endpoints_of(context.quorum.voter_registry, response.leader)
    ]
    return write_response(header.version, header.correlation_id, (answer,), endpoints=endpoints)
