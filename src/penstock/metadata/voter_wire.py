"""The conversion of the Raft core's messages to KRaft's requests and responses, and back.

Vote, BeginQuorumEpoch, EndQuorumEpoch and Fetch for the one partition of `__cluster_metadata`. Fields of the requests
that messages lack (cluster, folders, endpoints) come from `NodeIdentity`. Imported with the first peer, which a
single-node quorum does not have. Refuses records of a leader that fail their checksum or leave a gap: Corruption.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Final, cast
from uuid import UUID

from kio.schema.begin_quorum_epoch.v1 import request as begin_in
from kio.schema.begin_quorum_epoch.v1 import response as begin_out
from kio.schema.end_quorum_epoch.v1 import request as end_in
from kio.schema.end_quorum_epoch.v1 import response as end_out
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v18 import request as fetch_in
from kio.schema.types import BrokerId, TopicName
from kio.schema.vote.v2 import request as vote_in
from kio.schema.vote.v2 import response as vote_out
from kio.static.primitive import i32, i32Timedelta, i64, u16

from penstock.metadata import control
from penstock.metadata.identity import NodeIdentity
from penstock.metadata.voters import ids_of
from penstock.model.errors import Corruption, FencedLeaderEpoch, NotLeaderOrFollower, Refusal, UnknownLeaderEpoch
from penstock.model.ids import NO_NODE, LeaderEpoch, NodeId, Offset
from penstock.model.topic import CLUSTER_METADATA
from penstock.raft.messages import (
    Batch,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EpochEnd,
    FetchError,
    FetchRequest,
    FetchResponse,
    Message,
    VoteRequest,
    VoteResponse,
)
from penstock.wire.api import ApiKey
from penstock.wire.batch import BatchHeader, check_magic, crc_ok, iter_batches
from penstock.wire.records import decode_batch

METADATA_TOPIC: Final = cast(TopicName, CLUSTER_METADATA)
METADATA_TOPIC_ID: Final = UUID(int=1)
_PARTITION: Final = i32(0)
FETCH_ERRORS: Final[Mapping[FetchError, int]] = {
    FetchError.NONE: 0,
    FetchError.NOT_LEADER: NotLeaderOrFollower.code,
    FetchError.FENCED_LEADER_EPOCH: FencedLeaderEpoch.code,
    FetchError.UNKNOWN_LEADER_EPOCH: UnknownLeaderEpoch.code,
}
_FETCH_ERROR_OF: Final = {code: error for error, code in FETCH_ERRORS.items()}


def write_request(identity: NodeIdentity, to: NodeId, message: Message) -> tuple[int, Any]:
    """Return the API key and the request for a message."""
    match message:
        case VoteRequest():
            return ApiKey.VOTE, _vote_request(identity, to, message)
        case BeginQuorumEpochRequest():
            return ApiKey.BEGIN_QUORUM_EPOCH, _begin_request(identity, to, message)
        case EndQuorumEpochRequest():
            return ApiKey.END_QUORUM_EPOCH, _end_request(identity, message)
        case FetchRequest():
            return ApiKey.FETCH, _fetch_request(identity, message)
    raise AssertionError(f"{message} is not a request")


def _vote_request(identity: NodeIdentity, to: NodeId, message: VoteRequest) -> vote_in.VoteRequest:
    partition = vote_in.PartitionData(
        partition_index=_PARTITION,
        replica_epoch=i32(message.epoch),
        replica_id=_node(identity.node_id),
        replica_directory_id=identity.directory_id,
        voter_directory_id=None,
        last_offset_epoch=i32(message.last_epoch),
        last_offset=i64(message.end_offset),
        pre_vote=message.pre_vote,
    )
    topic = vote_in.TopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return vote_in.VoteRequest(cluster_id=identity.cluster_id, voter_id=_node(to), topics=(topic,))


def _begin_request(
    identity: NodeIdentity, to: NodeId, message: BeginQuorumEpochRequest
) -> begin_in.BeginQuorumEpochRequest:
    partition = begin_in.PartitionData(
        partition_index=_PARTITION,
        voter_directory_id=None,
        leader_id=_node(identity.node_id),
        leader_epoch=i32(message.epoch),
    )
    endpoints = tuple(
        begin_in.LeaderEndpoint(name=each.name, host=each.host, port=u16(each.port)) for each in identity.endpoints()
    )
    return begin_in.BeginQuorumEpochRequest(
        cluster_id=identity.cluster_id,
        voter_id=_node(to),
        topics=(begin_in.TopicData(topic_name=METADATA_TOPIC, partitions=(partition,)),),
        leader_endpoints=endpoints,
    )


def _end_request(identity: NodeIdentity, message: EndQuorumEpochRequest) -> end_in.EndQuorumEpochRequest:
    partition = end_in.PartitionData(
        partition_index=_PARTITION,
        leader_id=_node(identity.node_id),
        leader_epoch=i32(message.epoch),
        preferred_candidates=tuple(
            end_in.ReplicaInfo(candidate_id=_node(voter), candidate_directory_id=None)
            for voter in message.preferred_successors
        ),
    )
    return end_in.EndQuorumEpochRequest(
        cluster_id=identity.cluster_id,
        topics=(end_in.TopicData(topic_name=METADATA_TOPIC, partitions=(partition,)),),
        leader_endpoints=tuple(
            end_in.LeaderEndpoint(name=each.name, host=each.host, port=u16(each.port)) for each in identity.endpoints()
        ),
    )


def _fetch_request(identity: NodeIdentity, message: FetchRequest) -> fetch_in.FetchRequest:
    partition = fetch_in.FetchPartition(
        partition=_PARTITION,
        current_leader_epoch=i32(message.epoch),
        fetch_offset=i64(message.fetch_offset),
        last_fetched_epoch=i32(message.last_fetched_epoch),
        partition_max_bytes=i32(identity.fetch_bytes_max),
        replica_directory_id=identity.directory_id,
        high_watermark=i64(message.high_watermark),
    )
    return fetch_in.FetchRequest(
        cluster_id=identity.cluster_id,
        replica_state=fetch_in.ReplicaState(replica_id=_node(identity.node_id)),
        max_wait=i32Timedelta.parse(timedelta(milliseconds=identity.fetch_wait_ms)),
        min_bytes=i32(0),
        max_bytes=i32(identity.fetch_bytes_max),
        topics=(fetch_in.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
        forgotten_topics_data=(),
    )


def read_answer(request: Message, entity: Any) -> Message | None:
    """Convert a response to a message; None if it has nothing that the core needs, or a top-level error."""
    if entity.error_code != ErrorCode.none:
        return None
    if isinstance(request, FetchRequest):
        return _read_fetch_response(request, entity)
    partition = only_partition(entity.topics)
    epoch, leader = LeaderEpoch(partition.leader_epoch), _node_or_none(partition.leader_id)
    match request:
        case VoteRequest():
            return VoteResponse(epoch=epoch, leader=leader, granted=partition.vote_granted, pre_vote=request.pre_vote)
        case BeginQuorumEpochRequest():
            return BeginQuorumEpochResponse(epoch=epoch, leader=leader)
    return None


def _read_fetch_response(request: FetchRequest, entity: Any) -> FetchResponse | None:
    partition = only_partition(entity.responses)
    error = _FETCH_ERROR_OF.get(int(partition.error_code))
    if error is None:
        return None
    leader = partition.current_leader
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    return FetchResponse(
        epoch=LeaderEpoch(leader.leader_epoch),
        leader=_node_or_none(leader.leader_id),
        request_id=request.request_id,
        error=error,
        high_watermark=Offset(partition.high_watermark),
        diverging=_epoch_end(diverging.epoch, diverging.end_offset),
        snapshot=_epoch_end(snapshot.epoch, snapshot.end_offset),
        batches=tuple(_read_batches(partition.records or b"", request.fetch_offset)),
    )


def _epoch_end(epoch: int, end_offset: int) -> EpochEnd | None:
    return None if end_offset < 0 else EpochEnd(epoch=LeaderEpoch(epoch), end_offset=Offset(end_offset))


def _read_batches(records: bytes, expected: int) -> Iterator[Batch]:
    try:
        for view in iter_batches(records, allow_partial=True):
            header = BatchHeader.at(view)
            check_magic(view)
            if header.base_offset != expected or header.last_offset < expected or not crc_ok(view):
                raise Corruption(
                    f"a leader's batch at {header.base_offset}, expected at {expected}, is corrupt or incomplete"
                )
            voters = control.voters_in(decode_batch(view)) if header.is_control else None
            yield Batch(
                base_offset=Offset(header.base_offset),
                last_offset=Offset(header.last_offset),
                epoch=LeaderEpoch(header.leader_epoch),
                payload=bytes(view),
                voters=None if voters is None else ids_of(voters),
            )
            expected = header.next_offset
    except Refusal as problem:
        raise Corruption(f"a leader's batch at {expected} cannot be read: {problem}") from problem


def endpoints_in(entity: Any) -> Iterator[tuple[NodeId, tuple[str, int]]]:
    """Yield the addresses of the leaders that a response names."""
    for each in getattr(entity, "node_endpoints", ()):
        yield NodeId(each.node_id), (each.host, each.port)


# -- requests of peers ---------------------------------------------------------------------------


def read_vote(entity: Any) -> tuple[NodeId, VoteRequest]:
    partition = only_partition(entity.topics)
    return NodeId(partition.replica_id), VoteRequest(
        epoch=LeaderEpoch(partition.replica_epoch),
        last_epoch=LeaderEpoch(partition.last_offset_epoch),
        end_offset=Offset(partition.last_offset),
        pre_vote=partition.pre_vote,
    )


def read_begin(entity: Any) -> tuple[NodeId, BeginQuorumEpochRequest]:
    partition = only_partition(entity.topics)
    return NodeId(partition.leader_id), BeginQuorumEpochRequest(epoch=LeaderEpoch(partition.leader_epoch))


def read_end(entity: Any) -> tuple[NodeId, EndQuorumEpochRequest]:
    partition = only_partition(entity.topics)
    successors = tuple(NodeId(each.candidate_id) for each in partition.preferred_candidates)
    return NodeId(partition.leader_id), EndQuorumEpochRequest(
        epoch=LeaderEpoch(partition.leader_epoch), preferred_successors=successors
    )


Endpoints = Iterable[tuple[int, tuple[str, int]]]


def write_vote(answer: VoteResponse, asked: VoteRequest, endpoints: Endpoints) -> vote_out.VoteResponse:
    partition = vote_out.PartitionData(
        partition_index=_PARTITION,
        error_code=_fenced(asked.epoch, answer.epoch),
        leader_id=_node(answer.leader),
        leader_epoch=i32(answer.epoch),
        vote_granted=answer.granted,
    )
    return vote_out.VoteResponse(
        error_code=ErrorCode.none,
        topics=(vote_out.TopicData(topic_name=METADATA_TOPIC, partitions=(partition,)),),
        node_endpoints=tuple(
            vote_out.NodeEndpoint(node_id=_node(NodeId(node)), host=host, port=u16(port))
            for node, (host, port) in endpoints
        ),
    )


def write_begin(*, asked: LeaderEpoch, epoch: LeaderEpoch, leader: NodeId | None) -> begin_out.BeginQuorumEpochResponse:
    partition = begin_out.PartitionData(
        partition_index=_PARTITION,
        error_code=_fenced(asked, epoch),
        leader_id=_node(leader),
        leader_epoch=i32(epoch),
    )
    return begin_out.BeginQuorumEpochResponse(
        error_code=ErrorCode.none,
        topics=(begin_out.TopicData(topic_name=METADATA_TOPIC, partitions=(partition,)),),
    )


def write_end(*, asked: LeaderEpoch, epoch: LeaderEpoch, leader: NodeId | None) -> end_out.EndQuorumEpochResponse:
    partition = end_out.PartitionData(
        partition_index=_PARTITION,
        error_code=_fenced(asked, epoch),
        leader_id=_node(leader),
        leader_epoch=i32(epoch),
    )
    return end_out.EndQuorumEpochResponse(
        error_code=ErrorCode.none,
        topics=(end_out.TopicData(topic_name=METADATA_TOPIC, partitions=(partition,)),),
    )


def only_partition(topics: Any) -> Any:
    """Return the one partition of the request; Corruption if it is not the metadata log's."""
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise Corruption("a request of the metadata quorum must have exactly one partition")
    topic = topics[0]
    name = getattr(topic, "topic_name", None) or getattr(topic, "name", None)
    if name is not None and name != METADATA_TOPIC:
        raise Corruption(f"{name} is not the metadata log")
    return topic.partitions[0]


def _fenced(asked: LeaderEpoch, epoch: LeaderEpoch) -> ErrorCode:
    return ErrorCode.fenced_leader_epoch if asked < epoch else ErrorCode.none


def _node(node: NodeId | None) -> BrokerId:
    return BrokerId(NO_NODE if node is None else node)


def _node_or_none(node: int) -> NodeId | None:
    return None if node < 0 else NodeId(node)
