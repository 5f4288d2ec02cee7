"""FetchSnapshot, versions 0-1: a part of a metadata snapshot, for a node whose log ends before the leader's begins.

Any node serves the snapshots it has, although only the leader is asked. Goes to metadata/quorum.py and the disk.
Refuses: INCONSISTENT_CLUSTER_ID, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE,
KAFKA_STORAGE_ERROR.
"""

from typing import Any, cast

from kio.schema.errors import ErrorCode
from kio.schema.fetch_snapshot.v1.request import FetchSnapshotRequest
from kio.schema.fetch_snapshot.v1.response import (
    FetchSnapshotResponse,
    LeaderIdAndEpoch,
    PartitionSnapshot,
    SnapshotId,
    TopicSnapshot,
)
from kio.static.primitive import Records

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, int32, int64, node, topic_name
from penstock.handlers.support.quorum_checks import check_cluster, check_peer
from penstock.metadata.snapshot import name_of
from penstock.metadata.voter_wire import METADATA_TOPIC, only_partition
from penstock.model.errors import (
    Corruption,
    FencedLeaderEpoch,
    InvalidRequest,
    NotLeaderOrFollower,
    PositionOutOfRange,
    Refusal,
    SnapshotNotFound,
    StorageError,
    UnknownLeaderEpoch,
)
from penstock.model.ids import NO_NODE, LeaderEpoch, NodeId, Offset
from penstock.raft.events import Heard
from penstock.raft.messages import EpochEnd


async def handle(context: Context, request: Request) -> FetchSnapshotResponse:
    body: FetchSnapshotRequest = request.body
    try:
        check_cluster(context, body.cluster_id)
        check_peer(context, body.replica_id)
        partition_request = only_partition(body.topics)
    except Refusal as refusal:
        return _response(ErrorCode(refusal.code))
    except Corruption:
        return _response(ErrorCode(InvalidRequest.code))
    context.quorum.step(Heard(NodeId(body.replica_id)))
    try:
        size, piece = _read(context, partition_request, body.max_bytes)
        partition = _partition(context, partition_request, size=size, piece=piece)
    except Refusal as refusal:
        partition = _partition(context, partition_request, error=ErrorCode(refusal.code))
    return _response(NO_ERROR, partition)


def _read(context: Context, partition_request: Any, bytes_max: int) -> tuple[int, bytes]:
    quorum = context.quorum
    if partition_request.current_leader_epoch < quorum.epoch:
        raise FencedLeaderEpoch
    if partition_request.current_leader_epoch > quorum.epoch:
        raise UnknownLeaderEpoch
    if quorum.leader != context.node_id:
        raise NotLeaderOrFollower
    end = EpochEnd(
        epoch=LeaderEpoch(partition_request.snapshot_id.epoch),
        end_offset=Offset(partition_request.snapshot_id.end_offset),
    )
    try:
        file = context.disk.open(f"{quorum.log.folder}/{name_of(end)}")
    except OSError:
        raise SnapshotNotFound from None
    try:
        size = file.size()
        if not 0 <= partition_request.position < size:
            raise PositionOutOfRange
        return size, file.read(min(max(bytes_max, 1), size - partition_request.position), partition_request.position)
    except OSError as error:
        raise StorageError(f"cannot read the snapshot: {error}") from error
    finally:
        file.close()


def _partition(
    context: Context, partition_request: Any, *, error: ErrorCode = NO_ERROR, size: int = 0, piece: bytes = b""
) -> PartitionSnapshot:
    leader = context.quorum.leader
    return PartitionSnapshot(
        index=int32(0),
        error_code=error,
        snapshot_id=SnapshotId(
            end_offset=partition_request.snapshot_id.end_offset, epoch=partition_request.snapshot_id.epoch
        ),
        current_leader=LeaderIdAndEpoch(
            leader_id=node(NO_NODE if leader is None else leader), leader_epoch=int32(context.quorum.epoch)
        ),
        size=int64(size),
        position=partition_request.position,
        unaligned_records=cast(Records, piece),
    )


def _response(error: ErrorCode, *partitions: PartitionSnapshot) -> FetchSnapshotResponse:
    topics = (TopicSnapshot(name=topic_name(METADATA_TOPIC), partitions=partitions),) if partitions else ()
    return FetchSnapshotResponse(throttle_time=NO_THROTTLE, error_code=error, topics=topics)
