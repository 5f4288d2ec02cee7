"""DescribeQuorum, versions 0-2: the voters and observers of the metadata log, and the progress of each.

Only the leader can answer. v1 adds when a node last fetched and was last caught up, v2 directories and addresses.
Reads metadata/quorum.py. Refuses: NOT_LEADER_OR_FOLLOWER elsewhere, UNKNOWN_TOPIC_OR_PARTITION for another log.
"""

from typing import Final

from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest
from kio.schema.describe_quorum.v2.response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from kio.schema.errors import ErrorCode
from kio.static.primitive import u16

from penstock.handlers.support.cluster_view import voter_endpoints
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, int32, int64, node
from penstock.metadata.voter_wire import METADATA_TOPIC
from penstock.model.ids import NO_NODE, NodeId
from penstock.raft.roles import FollowerProgress, Leader

UNREGISTERED_SILENT_S_MAX: Final = 10.0
"""How long an observer that is not registered is listed after its last fetch."""


async def handle(context: Context, request: Request) -> DescribeQuorumResponse:
    body: DescribeQuorumRequest = request.body
    topics = tuple(
        TopicData(
            topic_name=topic.topic_name,
            partitions=tuple(
                _describe(context, known=topic.topic_name == METADATA_TOPIC and each.partition_index == 0)
                for each in topic.partitions
            ),
        )
        for topic in body.topics
    )
    nodes = tuple(
        Node(
            node_id=node(voter.id),
            listeners=tuple(
                Listener(name=each.name, host=each.host, port=u16(each.port))
                for each in voter_endpoints(context, voter)
            ),
        )
        for voter in context.quorum.voter_registry.present
    )
    return DescribeQuorumResponse(error_code=NO_ERROR, error_message=None, topics=topics, nodes=nodes)


def _describe(context: Context, *, known: bool) -> PartitionData:
    quorum = context.quorum
    role = quorum.core.role
    if not known:
        return _refused(context, ErrorCode.unknown_topic_or_partition)
    if not isinstance(role, Leader):
        return _refused(context, ErrorCode.not_leader_or_follower)
    voters = quorum.core.voters
    observers = sorted(other for other in role.progress if other not in voters and _is_present(context, role, other))
    return PartitionData(
        partition_index=int32(0),
        error_code=NO_ERROR,
        error_message=None,
        leader_id=node(context.node_id),
        leader_epoch=int32(quorum.epoch),
        high_watermark=int64(quorum.high_watermark),
        current_voters=tuple(_replica(context, voter, role.progress.get(voter)) for voter in sorted(voters)),
        observers=tuple(_replica(context, other, role.progress[other]) for other in observers),
    )


def _is_present(context: Context, role: Leader, observer: NodeId) -> bool:
    """Whether an observer is registered as a broker or still fetches; a removed node does neither."""
    heard_at = role.progress[observer].heard_at
    return observer in context.quorum.image.brokers or context.clock.monotonic() - heard_at <= UNREGISTERED_SILENT_S_MAX


def _replica(context: Context, node_id: NodeId, progress: FollowerProgress | None) -> ReplicaState:
    now_ms = context.clock.wall_ms()
    if node_id == context.node_id:
        return ReplicaState(
            replica_id=node(node_id),
            replica_directory_id=context.store.directory_id,
            log_end_offset=int64(context.quorum.core.log.end_offset),
            last_fetch_timestamp=int64(now_ms),
            last_caught_up_timestamp=int64(now_ms),
        )
    if progress is None or (progress.disk is None and not progress.end):
        # It has not fetched from this leader: its progress is unknown.
        return ReplicaState(
            replica_id=node(node_id),
            replica_directory_id=context.quorum.voter_registry.directories.get(node_id),
            log_end_offset=int64(-1),
            last_fetch_timestamp=int64(-1),
            last_caught_up_timestamp=int64(-1),
        )
    return ReplicaState(
        replica_id=node(node_id),
        replica_directory_id=progress.disk,
        log_end_offset=int64(progress.end),
        last_fetch_timestamp=int64(_wall_ms(context, progress.heard_at)),
        last_caught_up_timestamp=int64(
            -1 if progress.caught_up_at is None else _wall_ms(context, progress.caught_up_at)
        ),
    )


def _wall_ms(context: Context, monotonic: float) -> int:
    ago_ms = int((context.clock.monotonic() - monotonic) * 1000)
    return context.clock.wall_ms() - ago_ms


def _refused(context: Context, error: ErrorCode) -> PartitionData:
    leader = context.quorum.leader
    return PartitionData(
        partition_index=int32(0),
        error_code=error,
        error_message=None,
        leader_id=node(NO_NODE if leader is None else leader),
        leader_epoch=int32(context.quorum.epoch),
        high_watermark=int64(-1),
        current_voters=(),
        observers=(),
    )
