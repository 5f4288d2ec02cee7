"""ShareAcknowledge, versions 1-2: outcomes of records that a member holds.

The response is sent when the outcomes are written. Epoch -1 closes the session after them and releases what the
member still holds. v2 adds RENEW (KIP-1222). Goes to shares/leading.py. Refuses: UNSUPPORTED_VERSION unless the
feature share.version is at 1, INVALID_REQUEST, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH; per partition
INVALID_REQUEST, INVALID_RECORD_STATE, NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, COORDINATOR_NOT_AVAILABLE.
"""

from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.share_acknowledge.v2.request import ShareAcknowledgeRequest
from kio.schema.share_acknowledge.v2.response import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, int32, milliseconds, node
from penstock.handlers.support.fetch_rights import owner_of
from penstock.handlers.support.partition_errors import HINTED, endpoints_of, leader_hint
from penstock.handlers.support.share_requests import (
    acknowledge,
    acknowledgements,
    check_enabled,
    check_length,
    check_member,
    message_of,
)
from penstock.model.acl import Operation
from penstock.model.errors import GroupAuthorizationFailed, Refusal
from penstock.model.ids import TopicIdPartition
from penstock.shares.sessions import FINAL_EPOCH, SessionKey

NO_LEADER = (0, 0)


async def handle(context: Context, request: Request) -> ShareAcknowledgeResponse:
    body: ShareAcknowledgeRequest = request.body
    leader = context.shares.leader
    check_length(body.topics)
    try:
        check_enabled(context)
        group, member = check_member(body.group_id, body.member_id)
        if not request.may_on_group(Operation.READ, group):
            raise GroupAuthorizationFailed
        session = leader.check_sessions().acknowledge(
            SessionKey(group, member),
            body.share_session_epoch,
            connection=request.connection,
            owner=owner_of(request.header),
        )
    except Refusal as refusal:
        return _response(0, (), (), ErrorCode(refusal.code), message_of(refusal))
    requested = acknowledgements(body.topics).items()
    outcomes = acknowledge(context, request.header, group, member, requested, is_renewal=body.is_renew_ack)
    results = await outcomes.wait()
    if body.share_session_epoch == FINAL_EPOCH:
        leader.close_session(session)
    hints = {
        partition: hint
        for partition, error in results.items()
        if error is not None and error.code in HINTED
        and (hint := leader_hint(context, *partition, by_id=True)) is not None
    }  # fmt: skip
    endpoints = endpoints_of(context, (leader_id for leader_id, _ in hints.values()), request.listener)
    topics: dict[bytes, list[PartitionData]] = {}
    for partition, error in results.items():
        topics.setdefault(partition[0], []).append(_partition(partition, error, hints.get(partition, NO_LEADER)))
    return _response(
        leader.settings_of(group).lock_duration_ms,
        tuple(
            ShareAcknowledgeTopicResponse(topic_id=UUID(bytes=topic_id), partitions=tuple(partitions))
            for topic_id, partitions in topics.items()
        ),
        tuple(
            NodeEndpoint(node_id=node(node_id), host=host, port=int32(port), rack=rack)
            for node_id, host, port, rack in endpoints
        ),
    )


def _partition(partition: TopicIdPartition, error: Refusal | None, hint: tuple[int, int]) -> PartitionData:
    return PartitionData(
        partition_index=int32(partition[1]),
        error_code=NO_ERROR if error is None else ErrorCode(error.code),
        error_message=None if error is None else error.message,
        current_leader=LeaderIdAndEpoch(leader_id=int32(hint[0]), leader_epoch=int32(hint[1])),
    )


def _response(
    lock_ms: int,
    topics: tuple[ShareAcknowledgeTopicResponse, ...],
    endpoints: tuple[NodeEndpoint, ...],
    error: ErrorCode = NO_ERROR,
    message: str | None = None,
) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        error_message=message,
        acquisition_lock_timeout=milliseconds(lock_ms),
        responses=topics,
        node_endpoints=endpoints,
    )
