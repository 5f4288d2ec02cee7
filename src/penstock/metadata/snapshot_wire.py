"""FetchSnapshot requests of this node. Imported with the first snapshot that is needed. Refuses nothing."""

from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.fetch_snapshot.v1.request import FetchSnapshotRequest, PartitionSnapshot, SnapshotId, TopicSnapshot
from kio.schema.types import BrokerId
from kio.static.primitive import i32, i64

from penstock.metadata.identity import NodeIdentity
from penstock.metadata.voter_wire import METADATA_TOPIC, only_partition
from penstock.model.ids import LeaderEpoch
from penstock.raft.messages import EpochEnd
from penstock.wire.api import ApiKey


def write_request(
    identity: NodeIdentity, end: EpochEnd, *, epoch: LeaderEpoch, position: int, bytes_max: int
) -> tuple[int, FetchSnapshotRequest]:
    partition = PartitionSnapshot(
        partition=i32(0),
        current_leader_epoch=i32(epoch),
        snapshot_id=SnapshotId(end_offset=i64(end.end_offset), epoch=i32(end.epoch)),
        position=i64(position),
        replica_directory_id=identity.directory_id,
    )
    return ApiKey.FETCH_SNAPSHOT, FetchSnapshotRequest(
        cluster_id=identity.cluster_id,
        replica_id=BrokerId(identity.node_id),
        max_bytes=i32(bytes_max),
        topics=(TopicSnapshot(name=METADATA_TOPIC, partitions=(partition,)),),
    )


def read_answer(entity: Any, position: int) -> tuple[int, bytes] | None:
    """Return the size of the snapshot and the piece at the position; None if the peer does not have it."""
    if entity.error_code != ErrorCode.none:
        return None
    partition = only_partition(entity.topics)
    if partition.error_code != ErrorCode.none or partition.position != position:
        return None
    return partition.size, bytes(partition.unaligned_records or b"")
